"""From a shell command line to its verdict. Empty, so that importing one module does not import the others."""
