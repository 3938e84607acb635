"""Trains the classifiers of this folder and writes what Python's onnxruntime answers with them, always the same.

    python -m venv venv && venv/bin/pip install -r requirements.txt && venv/bin/python make.py

forest.onnx: a random forest on the iris data, whose classes are numbers: seq(map(int64, float)).
logistic.onnx: a logistic regression on them, whose classes are names: seq(map(string, float)).
answers.json: for some rows of the data, each run alone, the label and the probabilities of each model.
"""
import json
from pathlib import Path

import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

folder = Path(__file__).parent
iris = load_iris()
# Quarters, and below coefficients in 256ths: sums of their products are exact, in whatever order a kernel makes them, so
# that a row gives the same bits whatever it is batched with.
features = (np.round(iris.data * 4) / 4).astype(np.float32)
names = iris.target_names[iris.target]
rows = features[::4]

models = {
    "forest": RandomForestClassifier(n_estimators=12, max_depth=5, random_state=0).fit(features, iris.target),
    "logistic": LogisticRegression(max_iter=1000).fit(features, names),
}
models["logistic"].coef_ = np.round(models["logistic"].coef_ * 256) / 256
models["logistic"].intercept_ = np.round(models["logistic"].intercept_ * 256) / 256

answers = {"rows": rows.tolist()}
for name, model in models.items():
    onnx = to_onnx(model, features[:1], target_opset={"": 17, "ai.onnx.ml": 3})
    onnx.graph.name = name  # else another one each time, as are those of nodes and the order of domains
    for place, node in enumerate(onnx.graph.node):
        node.name = f"{node.op_type}_{place}"
    domains = sorted(onnx.opset_import, key=lambda own: own.domain)
    del onnx.opset_import[:]
    onnx.opset_import.extend(domains)
    (folder / f"{name}.onnx").write_bytes(onnx.SerializeToString())
    session = onnxruntime.InferenceSession(onnx.SerializeToString(), providers=["CPUExecutionProvider"])
    answers[name] = []
    for row in rows:
        label, probabilities = session.run(None, {"X": row[None]})
        answers[name].append({"label": label.tolist()[0], "probabilities": [[key, float(value)] for key, value in probabilities[0].items()]})

(folder / "answers.json").write_text(json.dumps(answers) + "\n")
