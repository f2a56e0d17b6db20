# The streaming job as an image: ingest with its locked packages, Java and the pinned Spark jars.
ARG PYTHON=python:3.12-slim-bookworm
FROM ${PYTHON}

RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 ingest \
 && install -d -o ingest /lake

WORKDIR /app
COPY pyproject.toml README.md LICENSE ./
COPY requirements ./requirements
COPY ingest ./ingest
COPY connect ./connect
COPY sql ./sql
RUN pip install --no-cache-dir --require-hashes -r requirements/dev.lock \
 && pip install --no-cache-dir --no-deps --no-build-isolation .

# Logs and what the job unpacks; the application's own folder is not the user's to write.
ENV INGEST_HOME=/home/ingest/.ingest
USER ingest
# Fetched and verified at build time, so that a container starts offline.
RUN python -c "from ingest.local import artefacts; artefacts.ensure(['spark', 's3', 'jdbc'])"
ENTRYPOINT ["ingest"]
