"""Runs an application's Django migrations, up to a number of them: a process of its own, on PyPI's packages alone.

    python orm.py SITE COUNT

The database is named by the environment. Prints how many migrations there are, and the last one that is applied.
"""

from __future__ import annotations

import os
import sys

DJANGO = ["auth", "contenttypes", "sessions", "sites", "messages", "admin", "flatpages"]
OSCAR = (
    "analytics.AnalyticsConfig checkout.CheckoutConfig address.AddressConfig shipping.ShippingConfig catalogue.CatalogueConfig "
    "catalogue.reviews.CatalogueReviewsConfig communication.CommunicationConfig partner.PartnerConfig basket.BasketConfig "
    "payment.PaymentConfig offer.OfferConfig order.OrderConfig customer.CustomerConfig search.SearchConfig "
    "voucher.VoucherConfig wishlists.WishlistsConfig dashboard.DashboardConfig "
    + " ".join(
        f"dashboard.{name}.{name.title()}DashboardConfig"
        for name in (
            [
                "reports",
                "users",
                "orders",
                "catalogue",
                "offers",
                "partners",
                "pages",
                "ranges",
                "reviews",
                "vouchers",
                "communications",
                "shipping",
            ]
        )
    )
)
WAGTAIL = (
    "contrib.forms contrib.redirects contrib.search_promotions contrib.settings embeds sites users snippets documents images "
    "search admin locales"
)
SITES = {
    "shop": [
        "oscar.config.Shop",
        *("oscar.apps.{}.apps.{}".format(*name.rsplit(".", 1)) for name in OSCAR.split()),
        *("widget_tweaks", "haystack", "treebeard", "django_tables2"),
    ],
    "helpdesk": ["django.contrib.humanize", "bootstrap4form", "rest_framework", "helpdesk"],
    "content": [
        *(f"wagtail.{name}" for name in WAGTAIL.split()),
        "wagtail",
        "modelcluster",
        "taggit",
    ],
}


def configure(site: str) -> None:
    import django
    import pymysql
    from django.conf import settings

    pymysql.version_info = (2, 2, 1, "final", 0)  # Django asks for a mysqlclient of this age
    pymysql.install_as_MySQLdb()
    extra: dict[str, object] = {}
    if site == "shop":
        from oscar import defaults

        extra = {
            name: getattr(defaults, name) for name in dir(defaults) if name.startswith("OSCAR")
        }
        extra["HAYSTACK_CONNECTIONS"] = {
            "default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}
        }
    if site == "helpdesk":
        extra = {"HELPDESK_TEAMS_MODE_ENABLED": False, "HELPDESK_TEAMS_MIGRATION_DEPENDENCIES": []}
    settings.configure(
        INSTALLED_APPS=[*(f"django.contrib.{name}" for name in DJANGO), *SITES[site]],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.mysql",
                "HOST": "127.0.0.1",
                "PORT": os.environ["APPLICATION_PORT"],
                "NAME": os.environ["APPLICATION_DATABASE"],
                "USER": os.environ["APPLICATION_USER"],
                "PASSWORD": os.environ["APPLICATION_PASSWORD"],
                # The rows are anybody's, without parents.
                "OPTIONS": {"charset": "utf8mb4", "init_command": "SET foreign_key_checks = 0"},
            }
        },
        STATIC_URL="/static/",
        SECRET_KEY="of this run",
        SITE_ID=1,
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        SILENCED_SYSTEM_CHECKS=["mysql"],
        WAGTAIL_SITE_NAME="of this run",
        WAGTAILADMIN_BASE_URL="http://127.0.0.1",
        **extra,
    )
    django.setup()


def migrate(upto: int) -> None:
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    executor.loader.check_consistent_history(connection)
    leaves = executor.loader.graph.leaf_nodes()
    plan = [migration for migration, _ in executor.migration_plan(leaves, clean_start=True)]
    applied = executor.loader.applied_migrations
    state = executor._create_project_state(with_applied_migrations=True)
    for migration in plan[:upto]:
        if (migration.app_label, migration.name) not in applied:
            print(f"… {migration}", file=sys.stderr, flush=True)
            state = executor.apply_migration(state, migration)
    last = plan[min(upto, len(plan)) - 1] if upto else "nothing"
    print(len(plan), last)


if __name__ == "__main__":
    configure(sys.argv[1])
    migrate(int(sys.argv[2]))
