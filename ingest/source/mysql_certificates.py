"""The certificates that ``source.tls`` names, looked at before MySQL is asked."""

from __future__ import annotations

import ssl

from ingest.config.source_settings import Tls
from ingest.model.errors import IngestError


def refuse_unreadable(tls: Tls) -> None:
    """Raises :class:`IngestError`. What would otherwise look like a server that is away; and a key with a password would ask for it on the terminal."""
    setting = "ca"
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.certificate is not None:
            setting = "certificate` and `key"
            context.load_cert_chain(tls.certificate, tls.key, password=lambda: b"")
    except (OSError, ValueError) as failure:
        why = getattr(failure, "reason", None) or getattr(failure, "strerror", None) or failure
        raise IngestError(
            "E-MYSQL-CERTIFICATE",
            f"What `{setting}` below `source.tls` names cannot be used: {str(why).rstrip('.')}.",
            means="Nothing was asked of MySQL.",
            remedy="correct the path; the files are in PEM, a key without a password.",
        ) from None
