# Its data folder made on first use; root, from anywhere, has the password of the file. Then the server, as its own user.
set -eu
data=/var/lib/mysql
chown mysql "$data"
[ -e "$data/mysql.ibd" ] || mysqld --no-defaults --initialize-insecure --user=mysql --datadir="$data"
first=$(mktemp)
password=$(cat "$MYSQL_ROOT_PASSWORD_FILE")
cat > "$first" <<SQL
CREATE USER IF NOT EXISTS 'root'@'%';
ALTER USER 'root'@'%' IDENTIFIED BY '$password';
GRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION;
ALTER USER 'root'@'localhost' IDENTIFIED BY '$password';
SQL
chown mysql "$first"
exec mysqld --no-defaults --user=mysql --datadir="$data" --secure-file-priv=NULL --mysqlx=OFF --init-file="$first" "$@"
