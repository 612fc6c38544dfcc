"""Servers of the Model Context Protocol (MCP): their tools for the model, over pipes or HTTP.

Both revisions are supported: 2025-11-25 with its handshake, and the stateless 2026-07-28. Only tools are used; a
server's requests to its client are refused.
"""
