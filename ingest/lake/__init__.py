"""Everything that is written below the lake's folder."""
