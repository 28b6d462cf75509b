"""Pipelines over texts, alone and in tables, and over dictionaries of features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import NMF, LatentDirichletAllocation, TruncatedSVD
from sklearn.ensemble import (
    RandomForestClassifier,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  (importing enables it)
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.naive_bayes import ComplementNB, MultinomialNB
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Normalizer,
    OneHotEncoder,
    StandardScaler,
)
from sklearn.svm import LinearSVC

from scripts.conformance.pipeline_cases import Data, case
from scripts.conformance.pipeline_tables import columns_of_customers, targets_of_customers

_SUBJECTS = {
    "billing": "invoice refund charge card payment twice money account".split(),
    "network": "router offline signal slow connection drop wifi cable".split(),
    "account": "password login reset locked email account name change".split(),
}
_PLAIN = "the my is not and it was since today please help again I've can't, really! 24 hours".split()


def _text(rng: np.random.Generator, topic: str, least: int, most: int) -> str:
    words = [
        str(rng.choice(_SUBJECTS[topic] if rng.random() < 0.5 else _PLAIN)) for _ in range(rng.integers(least, most))
    ]
    return " ".join(words).capitalize()


def tickets(fresh: bool) -> Data:
    """Requests for help: a subject, a text, a channel, the hours they waited."""
    rng = np.random.default_rng(5 if fresh else 4)
    topics = rng.choice(list(_SUBJECTS), size=120)
    frame = pd.DataFrame(
        {
            "subject": [_text(rng, topic, 1, 4) for topic in topics],
            "body": [_text(rng, topic, 0, 18) for topic in topics],
            "channel": rng.choice(np.array(["mail", "phone", "chat"], object), size=120),
            "hours": np.round(rng.exponential(8, size=120), 1),
        }
    ).astype({"subject": object, "body": object})
    hours = frame["hours"].to_numpy()
    return frame, {"topic": topics, "urgent": (hours > 6).astype(int), "hours": hours}


def bodies(fresh: bool) -> Data:
    """The texts of the requests, as a list."""
    frame, targets = tickets(fresh)
    return frame["body"].tolist(), targets


def records(fresh: bool) -> Data:
    """Customers as dictionaries, some features left out."""
    columns = columns_of_customers(fresh)
    rows = []
    for index, city in enumerate(columns["city"]):
        row = {"city": str(city), "age": int(columns["age"][index])}
        if columns["member"][index]:
            row["visits"] = float(columns["visits"][index])
        rows.append(row)
    return rows, targets_of_customers(columns, fresh)


# -- texts -------------------------------------------------------------------------------------------------------------------


@case(tickets, "topic")
def text_beside_numbers() -> Any:
    """TfidfVectorizer of a column beside numbers and words; LogisticRegression."""
    parts = [(TfidfVectorizer(), "body"), (OneHotEncoder(), ["channel"]), (StandardScaler(), ["hours"])]
    return make_pipeline(make_column_transformer(*parts), LogisticRegression())


@case(tickets, "topic")
def several_texts() -> Any:
    """Words of one column, n-grams of characters of another; SGDClassifier with probabilities."""
    parts = [
        ("subject", TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3), max_features=150), "subject"),
        ("body", CountVectorizer(stop_words="english", ngram_range=(1, 2), min_df=2), "body"),
    ]
    return make_pipeline(ColumnTransformer(parts), SGDClassifier(loss="log_loss", random_state=0))


@case(bodies, "topic")
def counted_words() -> Any:
    """CountVectorizer without stop words, ComplementNB."""
    return make_pipeline(CountVectorizer(stop_words="english", max_features=60), ComplementNB())


@case(bodies, "topic")
def best_terms() -> Any:
    """TfidfVectorizer (sublinear, bigrams), SelectKBest by chi2, calibrated LinearSVC."""
    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2))
    return make_pipeline(words, SelectKBest(chi2, k=40), CalibratedClassifierCV(LinearSVC(), cv=2))


@case(bodies)
def latent_semantics() -> Any:
    """TfidfVectorizer, TruncatedSVD, Normalizer, KMeans."""
    svd = TruncatedSVD(5, random_state=0)
    return make_pipeline(TfidfVectorizer(), svd, Normalizer(copy=False), KMeans(3, n_init=2, random_state=0))


@case(bodies, "topic")
def topics_lda() -> Any:
    """CountVectorizer, LatentDirichletAllocation, LogisticRegression."""
    return make_pipeline(
        CountVectorizer(), LatentDirichletAllocation(3, max_iter=5, random_state=0), LogisticRegression()
    )


@case(bodies)
def topics_nmf() -> Any:
    """TfidfVectorizer, NMF."""
    return make_pipeline(TfidfVectorizer(max_features=50), NMF(3, init="nndsvda", max_iter=100))


@case(bodies, "topic")
def words_and_characters() -> Any:
    """FeatureUnion of words and characters, weighted; LogisticRegression."""
    union = FeatureUnion(
        [
            ("words", TfidfVectorizer(binary=True)),
            ("chars", TfidfVectorizer(analyzer="char", ngram_range=(1, 3), min_df=3)),
        ],
        transformer_weights={"words": 2.0},
    )
    return make_pipeline(union, LogisticRegression())


@case(bodies, "topic")
def hashed_words() -> Any:
    """HashingVectorizer, TfidfTransformer, MultinomialNB."""
    return make_pipeline(HashingVectorizer(n_features=128, alternate_sign=False), TfidfTransformer(), MultinomialNB())


# -- dictionaries ------------------------------------------------------------------------------------------------------------


@case(records, "spent")
def dictionaries() -> Any:
    """DictVectorizer, StandardScaler without mean, Ridge."""
    return make_pipeline(DictVectorizer(), StandardScaler(with_mean=False), Ridge())


@case(records, "leaves")
def dictionaries_trees() -> Any:
    """DictVectorizer, RandomForestClassifier; words as labels."""
    return make_pipeline(DictVectorizer(sparse=False), RandomForestClassifier(8, max_depth=5, random_state=0))
