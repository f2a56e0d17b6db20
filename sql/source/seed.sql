-- Rows that are there before the pipeline starts. Deterministic: arithmetic instead of RAND().
SET SESSION cte_max_recursion_depth = 100000;

INSERT INTO shop.categories
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 12)
SELECT i, CONCAT(ELT(1 + i MOD 4, 'Lamps', 'Chairs', 'Möbel', '茶具'), ' ', i) FROM n;

INSERT INTO shop.products (sku, category_id, title, price, stock, weight_kg, attributes, thumbnail)
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 800)
SELECT CONCAT('SKU-', LPAD(i, 6, '0')), 1 + i MOD 12, CONCAT('Product ', i, IF(i MOD 7, '', ' "é, ü: 漢"')),
       1 + (i * 37 MOD 90000) / 100, 1000, IF(i MOD 5, (i * 13 MOD 977) / 97, NULL),
       IF(i MOD 3, JSON_OBJECT('colour', ELT(1 + i MOD 3, 'red', 'blue', 'a,b: "c"'), 'sizes', JSON_ARRAY(i, i + 0.5)), NULL),
       IF(i MOD 4, UNHEX(MD5(i)), NULL)
FROM n;

INSERT INTO shop.customers (email, full_name, born, tier, newsletter, active, credit, created_at)
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
SELECT CONCAT('customer', i, '@example.org'), CONCAT(ELT(1 + i MOD 5, 'Ada', 'Grace', 'Žofie', '山田', 'O''Neil'), ' ', i),
       IF(i MOD 6, DATE_ADD('1950-01-01', INTERVAL i * 11 MOD 20000 DAY), NULL), 1 + i MOD 3,
       ELT(1 + i MOD 4, 0, 1, 2, 127), i MOD 2, IF(i MOD 9, i / 8, NULL), TIMESTAMPADD(MICROSECOND, i * 1000003, '2024-01-01 00:00:00')
FROM n;

INSERT INTO shop.addresses
SELECT id, IF(id MOD 2, 'billing', 'shipping'), CONCAT(id, ' Main Street'), ELT(1 + id MOD 4, 'Wien', 'Oslo', '東京', 'São Paulo')
FROM shop.customers WHERE id MOD 4 < 3;

INSERT INTO shop.orders (customer_id, status, total, note, placed_at, shipped_at)
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
SELECT 1 + i * 7 MOD 4000, 1 + i MOD 4, (i * 131 MOD 500000) / 100, IF(i MOD 3, NULL, CONCAT('leave at door ', i)),
       TIMESTAMPADD(MICROSECOND, i * 1357000, '2025-06-01 00:00:00'), IF(i MOD 4 > 1, '2025-07-01 12:00:00', NULL)
FROM n;

INSERT INTO shop.order_items
SELECT o.id, l.line, 1 + (o.id * 17 + l.line * 5) MOD 800, 1 + l.line, 9.90 + l.line
FROM shop.orders o JOIN (SELECT 1 AS line UNION ALL SELECT 2 UNION ALL SELECT 3) l ON l.line <= 1 + o.id MOD 3;

INSERT INTO shop.payments
SELECT id, ELT(1 + id MOD 3, 'card', 'transfer', 'cash'), total, IF(id MOD 2, JSON_OBJECT('iban', CONCAT('XX', id)), NULL),
       TIMESTAMPADD(SECOND, id, '2025-06-02 00:00:00')
FROM shop.orders WHERE status <> 'new';

INSERT INTO shop.visits
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
SELECT CONCAT('/p/', i MOD 40), IF(i MOD 3, NULL, 'https://example.org'), i MOD 5 FROM n;
