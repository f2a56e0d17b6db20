"""The applications, as data: where each version's SQL lies, and in which order it is run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from ingest.local.artefacts import Artefact
from tests.applications.packages import Debian, Maven, Package
from tests.applications.scripts import statements


@dataclass(frozen=True)
class Script:
    """A file of a package."""

    package: Package
    member: str
    change: Callable[[str], str] = str

    def statements(self) -> list[str]:
        return list(statements(self.change(self.package.text(self.member))))


@dataclass(frozen=True)
class Migrations:
    """All migrations of a site (``orm.SITES``) up to this number."""

    site: str
    upto: int


@dataclass(frozen=True)
class Application:
    name: str
    what: str
    before: str
    after: str
    install: tuple[Script | Migrations, ...]
    upgrade: tuple[Script | Migrations, ...]
    sql_mode: str = "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"
    charset: str = "utf8mb4"
    source: Mapping[str, str] = field(default_factory=dict)
    """What its pipeline file says under ``source``, beside the tables."""
    left_alone: frozenset[str] = frozenset()
    """Tables of which its own upgrade would fail, were they not as it left them."""


def _jar(group: str, artifact: str, version: str, sha256: str, size: int) -> Maven:
    return Maven(Artefact(group, artifact, version, sha256, size))


# --- batch jobs: Spring Batch ---------------------------------------------------------------------

_BATCH = ("org.springframework.batch", "spring-batch-core")
_BATCH_2 = _jar(
    *_BATCH,
    "2.1.9.RELEASE",
    "06533c012f15390b2030ca88816788aebdd18f28f206cdceddb9c61241875e2c",
    467433,
)
_BATCH_5 = _jar(
    *_BATCH, "5.2.2", "fcf9f81740afa1c34f198cf3100ecc4321da1d94239dca79b5e4c1f9bfd99f97", 712996
)
_BATCH_FOLDER = "org/springframework/batch/core"
SPRING_BATCH = Application(
    "spring_batch",
    "batch jobs",
    "2.1.9",
    "5.2.2",
    (Script(_BATCH_2, f"{_BATCH_FOLDER}/schema-mysql.sql"),),
    tuple(
        Script(_BATCH_5, f"{_BATCH_FOLDER}/migration/{version}/migration-mysql.sql")
        for version in ("2.2", "4.3", "5.0")
    ),
    # It gives old rows the moment 1970-01-01 00:00:00, which Debezium does not tell from a zero date.
    source={"epoch_dates": "keep"},
)

# --- workflows: Camunda ---------------------------------------------------------------------------

_CAMUNDA = ("org.camunda.bpm", "camunda-engine")
_CAMUNDA_10 = _jar(
    *_CAMUNDA, "7.10.0", "ebdc783643c74e1d686c673083044b56121e60fe54fcb3ea3ef51d9cf5ca06ad", 3823769
)
_CAMUNDA_22 = _jar(
    *_CAMUNDA, "7.22.0", "2a7519de695090d76d1cfaf6c550877799d909ba50bb741760912519eaff8506", 4932128
)
_PARTS = (
    "engine",
    "case.engine",
    "decision.engine",
    "history",
    "case.history",
    "decision.history",
    "identity",
)
CAMUNDA = Application(
    "camunda",
    "workflows",
    "7.10.0",
    "7.22.0",
    tuple(
        Script(_CAMUNDA_10, f"org/camunda/bpm/engine/db/create/activiti.mysql.create.{part}.sql")
        for part in _PARTS
    ),
    tuple(
        Script(
            _CAMUNDA_22,
            f"org/camunda/bpm/engine/db/upgrade/mysql_engine_7.{minor}_to_7.{minor + 1}.sql",
        )
        for minor in range(10, 22)
    ),
)

# --- a catalogue of data: Hive's metastore --------------------------------------------------------

_HIVE = Maven(
    Artefact(
        "org.apache.hive",
        "hive-standalone-metastore",
        "3.1.3",
        "83ddf76717eeb789091d845c069a631c25cad561c3d31ec0843a1ddf21f29409",
        27496847,
        "bin",
        "tar.gz",
    )
)
_HIVE_FOLDER = "apache-hive-metastore-3.1.3-bin/scripts/metastore/upgrade/mysql"
_HIVE_VERSIONS = ("1.2.0", "2.0.0", "2.1.0", "2.2.0", "2.3.0", "3.0.0", "3.1.0")
HIVE = Application(
    "hive_metastore",
    "catalogue of data",
    "1.2.0",
    "3.1.0",
    (Script(_HIVE, f"{_HIVE_FOLDER}/hive-schema-1.2.0.mysql.sql"),),
    tuple(
        Script(_HIVE, f"{_HIVE_FOLDER}/upgrade-{first}-to-{then}.mysql.sql")
        for first, then in pairwise(_HIVE_VERSIONS)
    ),
    sql_mode="",
    charset="latin1",
)

# --- monitoring: Icinga DB ------------------------------------------------------------------------

_ICINGA_11 = Debian(
    "icingadb",
    "1.1.0-1+b4",
    "bookworm",
    "27a4b594facd1988cffd7314319f9c847a30b4f1ed7b6267289e1decb6cbddb0",
)
_ICINGA_13 = Debian(
    "icingadb",
    "1.3.0-1+b2",
    "trixie",
    "8218bf17258850338fe1ecfdcf3290eeb9cbbb8d08616a0d38740aa701dfab13",
)
_ICINGA_FOLDER = "usr/share/icingadb/schema/mysql"
ICINGADB = Application(
    "icingadb",
    "monitoring",
    "1.1.0",
    "1.3.0",
    (Script(_ICINGA_11, f"{_ICINGA_FOLDER}/schema.sql"),),
    tuple(
        Script(_ICINGA_13, f"{_ICINGA_FOLDER}/upgrades/{name}.sql")
        for name in ("1.1.1", "1.2.0", "optional/1.2.0-history", "1.2.1")
    ),
)

# --- a wiki: MediaWiki ----------------------------------------------------------------------------

_WIKI_39 = Debian(
    "mediawiki",
    "1:1.39.17-1+deb12u2",
    "bookworm",
    "dee6a9e1f11cf72ff9764f94815df980e120102984d15d489af079de7e980bba",
)
_WIKI_43 = Debian(
    "mediawiki",
    "1:1.43.9+dfsg-1~deb13u1",
    "trixie",
    "e85166979fb70b40a486bb71f1392755b9e172abc752e407b2c8dade3185a255",
)
_WIKI_FOLDER = "usr/share/mediawiki/maintenance"
_WIKI_PATCHES = (
    "externallinks-el_to_path",
    "user-user_is_temp",
    "externallinks-el_to_default",
    "pagelinks-target_id",
    "externallinks-drop-el_to",
    "image-img_size_to_bigint",
    "filearchive-fa_size_to_bigint",
    "oldimage-oi_size_to_bigint",
    "uploadstash-us_size_to_bigint",
    "user_autocreate_serial-uas_year",
    "block_target",
    "drop-cl_collation_ext",
    "sites-drop_indexes",
    "iwlinks-drop-iwl_prefix_from_title",
    "revision-cleanup",
    "recentchanges-rc_id-bigint",
    "change_tag-ct_rc_id",
    "pagelinks-drop-pl_title",
    "page-page_links_updated-noinfinite",
)
"""In the order of its own updater, without what that does in PHP."""


def _wiki(script: str) -> str:
    """As its installer fills in the marks: no prefix, InnoDB, binary text."""
    options = "ENGINE=InnoDB, DEFAULT CHARSET=binary"
    return re.sub(r"/\*_\*/|/\*i\*/", "", script.replace("/*$wgDBTableOptions*/", options))


MEDIAWIKI = Application(
    "mediawiki",
    "wiki",
    "1.39.17",
    "1.43.9",
    (Script(_WIKI_39, f"{_WIKI_FOLDER}/tables-generated.sql", _wiki),),
    tuple(
        Script(_WIKI_43, f"{_WIKI_FOLDER}/archives/patch-{name}.sql", _wiki)
        for name in _WIKI_PATCHES
    ),
    sql_mode="",
    charset="binary",
)


# --- Django's migrations: a shop, tickets, content -------------------------------------------------


def _django(
    name: str, what: str, site: str, install: int, upto: int, steps: int, *left_alone: str
) -> Application:
    """The first ``install`` of all migrations, then those up to ``upto`` in so many steps."""
    stops = [install + (upto - install) * step // steps for step in range(1, steps + 1)]
    return Application(
        name,
        what,
        f"its first {install} migrations",
        f"its first {upto} migrations",
        (Migrations(site, install // 2), Migrations(site, install)),
        tuple(Migrations(site, stop) for stop in stops),
        left_alone=frozenset(
            (
                "django_migrations",
                "django_content_type",
                "auth_permission",
                "auth_group",
                *left_alone,
            )
        ),
    )


OSCAR = _django("oscar", "shop (django-oscar 4.2.1)", "shop", 60, 107, 4)
HELPDESK = _django(
    "helpdesk",
    "tickets (django-helpdesk 2.3.3)",
    "helpdesk",
    34,
    60,
    4,
    "helpdesk_ticketcustomfieldvalue",
    "helpdesk_usersettings",
    "django_site",
)
WAGTAIL = _django(
    "wagtail",
    "content (wagtail 7.3.4)",
    "content",
    60,
    84,
    4,
    "wagtailcore_collection",
    "wagtailcore_page",
    "wagtailcore_locale",
    "wagtailcore_grouppagepermission",
)

ALL = (SPRING_BATCH, ICINGADB, HELPDESK, HIVE, CAMUNDA, WAGTAIL, MEDIAWIKI, OSCAR)
