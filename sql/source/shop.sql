-- The sample world: a small shop. Foreign keys, a composite key, a table without a key, json,
-- decimals, enums, unsigned and boolean-looking numbers, fractions of seconds.
CREATE DATABASE shop CHARACTER SET utf8mb4;

CREATE TABLE shop.categories (
  id    SMALLINT UNSIGNED NOT NULL PRIMARY KEY,
  name  VARCHAR(60) NOT NULL UNIQUE
);

CREATE TABLE shop.products (
  id           INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  sku          CHAR(12) CHARACTER SET latin1 NOT NULL UNIQUE,
  category_id  SMALLINT UNSIGNED NOT NULL,
  title        VARCHAR(120) NOT NULL,
  price        DECIMAL(10,2) NOT NULL,
  stock        INT NOT NULL DEFAULT 0,
  weight_kg    DOUBLE NULL,
  attributes   JSON NULL,
  thumbnail    VARBINARY(32) NULL,
  FOREIGN KEY (category_id) REFERENCES shop.categories (id)
);

CREATE TABLE shop.customers (
  id          BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  email       VARCHAR(190) NOT NULL UNIQUE,
  full_name   VARCHAR(120) NOT NULL,
  born        DATE NULL,
  tier        ENUM('basic','plus','gold') NOT NULL DEFAULT 'basic',
  newsletter  TINYINT(1) NOT NULL DEFAULT 0,
  active      BIT(1) NOT NULL DEFAULT b'1',
  credit      DECIMAL(12,4) NULL DEFAULT 0,
  created_at  TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
);

CREATE TABLE shop.addresses (
  customer_id  BIGINT UNSIGNED NOT NULL,
  kind         ENUM('billing','shipping') NOT NULL,
  street       VARCHAR(160) NOT NULL,
  city         VARCHAR(80) NOT NULL,
  PRIMARY KEY (customer_id, kind),
  FOREIGN KEY (customer_id) REFERENCES shop.customers (id)
);

CREATE TABLE shop.orders (
  id           BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id  BIGINT UNSIGNED NOT NULL,
  status       ENUM('new','paid','shipped','returned') NOT NULL DEFAULT 'new',
  total        DECIMAL(14,2) NOT NULL,
  note         TEXT NULL,
  placed_at    DATETIME(3) NOT NULL,
  shipped_at   DATETIME NULL,
  KEY (status),
  FOREIGN KEY (customer_id) REFERENCES shop.customers (id)
);

CREATE TABLE shop.order_items (
  order_id    BIGINT UNSIGNED NOT NULL,
  line        SMALLINT NOT NULL,
  product_id  INT UNSIGNED NOT NULL,
  quantity    MEDIUMINT UNSIGNED NOT NULL,
  price       DECIMAL(10,2) NOT NULL,
  PRIMARY KEY (order_id, line),
  FOREIGN KEY (order_id) REFERENCES shop.orders (id),
  FOREIGN KEY (product_id) REFERENCES shop.products (id)
);

CREATE TABLE shop.payments (
  order_id   BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  method     VARCHAR(20) NOT NULL,
  amount     DECIMAL(14,2) NOT NULL,
  details    JSON NULL,
  paid_at    TIMESTAMP(3) NOT NULL,
  FOREIGN KEY (order_id) REFERENCES shop.orders (id)
);

-- No key at all, and identical rows on purpose: mirrored as a multiset.
CREATE TABLE shop.visits (
  page      VARCHAR(80) NOT NULL,
  referrer  VARCHAR(80) NULL,
  seconds   SMALLINT NOT NULL
);
