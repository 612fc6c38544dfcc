"""The commands of the command line: sessions, review, policy check, audit verify, doctor, demo and others."""
