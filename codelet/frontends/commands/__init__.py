"""What `codelet COMMAND` runs beside a session: sessions, policy check, audit verify, doctor, demo."""
