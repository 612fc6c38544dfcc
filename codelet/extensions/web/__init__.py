"""The tool `fetch`: a page of a public web server as text, whose host a rule or the user has allowed."""
