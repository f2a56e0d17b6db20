# For python:3.12-slim-bookworm: Debian's own Python (3.11), by the names that image has.
FROM ingest-stand-in/base
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-pip \
 && rm -rf /var/lib/apt/lists/* /usr/lib/python3*/EXTERNALLY-MANAGED \
 && ln -s python3 /usr/bin/python
