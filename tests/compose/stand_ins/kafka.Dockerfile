# For apache/kafka: the jars of this project's lock, the user and the variables of that image.
FROM ingest-stand-in/base
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless curl \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 1000 appuser \
 && install -d -o appuser /var/lib/kafka/data /opt/kafka/config
COPY kafka /opt/kafka/libs
COPY variables.sh kafka-entrypoint.sh /
USER appuser
ENTRYPOINT ["sh", "/kafka-entrypoint.sh"]
