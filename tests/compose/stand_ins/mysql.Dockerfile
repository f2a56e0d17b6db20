# For mysql:8.4, which no Debian has: MySQL 9 of its newest suite, and what the vendor's entrypoint does with this file's settings.
# A mirror may lag behind its own dates; signatures are checked all the same.
FROM ingest-stand-in/base
RUN sed -i 's/bookworm/sid/' /etc/apt/sources.list \
 && apt-get -o Acquire::Check-Valid-Until=false update \
 && apt-get -o Dpkg::Options::=--force-overwrite install -y --no-install-recommends mysql-server-core mysql-client-core \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 999 mysql \
 && install -d -o mysql /var/run/mysqld /var/lib/mysql /etc/mysql
COPY mysql-entrypoint.sh /entrypoint.sh
ENTRYPOINT ["sh", "/entrypoint.sh"]
