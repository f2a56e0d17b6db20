"""What is done to a lake's small files, drawn: the same of whatever holds them."""

from hypothesis import strategies as st

NAMES = st.sampled_from(["1.json", "1.beat", "a/b", "a/c/d", "ä b"])
TEXTS = st.text(max_size=50)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), NAMES),
        st.tuples(st.just("write"), NAMES, TEXTS),
        st.tuples(st.just("create"), NAMES, TEXTS),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("names"), st.sampled_from(["", "a", "none"])),
    ),
    max_size=20,
)
"""Names of the methods of ``Files``, each with its arguments."""
