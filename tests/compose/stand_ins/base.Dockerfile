# Debian as debootstrap made it, believing what this machine believes.
FROM ingest-stand-in/debian
RUN update-ca-certificates
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt
