import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import onnxport

people = pd.DataFrame({"age": [23.0, 41.0, None, 65.0] * 10, "city": ["Bern", "Rome", "Rome", "Oslo"] * 10})
bought = ["no", "yes", "yes", "no"] * 10
columns = make_column_transformer((OneHotEncoder(sparse_output=False), ["city"]), remainder="passthrough")
pipeline = make_pipeline(columns, HistGradientBoostingClassifier(max_iter=20)).fit(people, bought)

model = onnxport.convert(pipeline, inputs=people)  # one graph input a column
label, probabilities = model(age=people[["age"]].to_numpy(), city=people[["city"]].to_numpy())
assert label.tolist() == pipeline.predict(people).tolist()
