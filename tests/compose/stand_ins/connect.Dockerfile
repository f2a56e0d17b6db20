# For quay.io/debezium/connect: the jars of this project's lock, the user and the variables of that image.
FROM ingest-stand-in/base
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless curl \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 1001 kafka && useradd --uid 1001 --gid 1001 kafka \
 && install -d -o kafka /kafka/config
COPY connect /kafka/libs
COPY debezium /kafka/connect/debezium-connector-mysql
COPY variables.sh connect-entrypoint.sh /
USER kafka
ENTRYPOINT ["sh", "/connect-entrypoint.sh"]
