"""Predicts the rows of `lab predictor ... --rows FILE` with a random forest of scikit-learn, and prints its errors as JSON."""

import csv
import json
import sys

from sklearn.ensemble import RandomForestRegressor

with open(sys.argv[1], newline="") as file:
    rows = list(csv.DictReader(file))
names = [name for name in rows[0] if name not in ("part", "watts")]
parts = {}
for part in ("train", "test"):
    of_part = [row for row in rows if row["part"] == part]
    parts[part] = ([[float(row[name]) for name in names] for row in of_part], [float(row["watts"]) for row in of_part])
forest = RandomForestRegressor(n_estimators=100, random_state=0)
forest.fit(*parts["train"])
features, measured = parts["test"]
predicted = forest.predict(features)
distances = [abs(a - b) for a, b in zip(predicted, measured)]
print(
    json.dumps(
        {
            "jobs": len(measured),
            "mae_by_mean": sum(distances) / sum(measured),
            "mape": sum(d / m for d, m in zip(distances, measured) if m > 0) / len(measured),
            "sum_percent": 100 * abs(sum(predicted) / sum(measured) - 1),
        }
    )
)
