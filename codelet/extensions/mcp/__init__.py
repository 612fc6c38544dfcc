"""Servers of the Model Context Protocol (MCP): their tools for the model, over pipes or HTTP.

Both revisions are spoken: 2025-11-25 with its handshake, and 2026-07-28, in which each request stands alone. Tools are
used, and nothing else of the protocol; what a server asks of its client is refused.
"""
