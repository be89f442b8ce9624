"""Writes the models of exported/: small networks with open dimensions and seeded weights, as exporters write them.

    python3 tests/onnx/exported.py torchscript     PyTorch's exporter by tracing and scripting
    python3 tests/onnx/exported.py dynamo          PyTorch's exporter by graphs of torch.export (wants onnxscript)
    python3 tests/onnx/exported.py sklearn         skl2onnx
    python3 tests/onnx/exported.py tensorflow      tf2onnx

Each needs its own packages alone. How inputs are drawn stands in __tests__/onnx/exported.test.js.
"""

import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "exported"


def torch_modules():
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Encoder(nn.Module):
        """A text encoder: ids and a mask to the mean of the states."""

        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(50, 16)
            self.places = nn.Embedding(64, 16)
            self.layers = nn.ModuleList([nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu") for _ in range(2)])

        def forward(self, ids, mask):
            places = torch.arange(ids.shape[1], device=ids.device)
            x = self.tokens(ids) + self.places(places)[None]
            bias = (1.0 - mask[:, None, None, :].float()) * -10000.0
            for layer in self.layers:
                batch, length, width = x.shape
                qkv = F.linear(x, layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias)
                q, k, v = (part.reshape(batch, length, 4, width // 4).transpose(1, 2) for part in qkv.chunk(3, -1))
                weights = (q @ k.transpose(-1, -2) / (width // 4) ** 0.5 + bias).softmax(-1)
                mixed = (weights @ v).transpose(1, 2).reshape(batch, length, width)
                x = layer.norm1(x + layer.self_attn.out_proj(mixed))
                x = layer.norm2(x + layer.linear2(F.gelu(layer.linear1(x))))
            held = mask[:, :, None].float()
            return x, (x * held).sum(1) / held.sum(1).clamp(min=1e-9)

    class Pyramid(nn.Module):
        """A network for images of any size: strides, skips that are resized to each other's size, pooling to one pixel and to 3 x 3."""

        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
            self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
            self.norm = nn.BatchNorm2d(8)
            self.deep = nn.Conv2d(8, 16, 3, stride=2, padding=1)
            self.lateral = nn.Conv2d(16, 8, 1)
            self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
            self.head = nn.Linear(16, 5)

        def forward(self, image):
            low = F.relu(self.norm(self.depthwise(F.hardswish(self.first(image)))))
            deep = F.relu(self.deep(low))
            back = F.interpolate(self.lateral(deep), size=low.shape[-2:], mode="bilinear", align_corners=False) + low
            mask = F.pad(self.up(back), (1, 1, 1, 1), mode="reflect")
            return self.head(F.adaptive_avg_pool2d(deep, 1).flatten(1)), mask

    class Decoder(nn.Module):
        """One layer of a decoder with its past, which is empty at first."""

        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(40, 16)
            self.qkv = nn.Linear(16, 48)
            self.out = nn.Linear(16, 16)
            self.norm = nn.LayerNorm(16)
            self.head = nn.Linear(16, 40)

        def forward(self, ids, past_key, past_value):
            x = self.tokens(ids)
            batch, length, _ = x.shape
            q, k, v = (part.reshape(batch, length, 2, 8).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
            key, value = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
            total = key.shape[2]
            rows = torch.arange(total - length, total)[:, None]
            allowed = torch.arange(total)[None, :] <= rows
            scores = (q @ key.transpose(-1, -2) / 8**0.5).masked_fill(~allowed, torch.finfo(torch.float32).min)
            mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, 16)
            return self.head(x + self.out(mixed)), key, value

    class Tagger(nn.Module):
        """A recurrent tagger of sequences."""

        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(30, 8)
            self.lstm = nn.LSTM(8, 12, num_layers=2, bidirectional=True, batch_first=True)
            self.gru = nn.GRU(24, 6, batch_first=True)
            self.head = nn.Linear(6, 4)

        def forward(self, ids):
            states, _ = self.lstm(self.tokens(ids))
            states, last = self.gru(states)
            return self.head(states).log_softmax(-1), last

    class Detector(nn.Module):
        """Boxes and their scores for an image, then those over a threshold, the best three, and the places of cells that are lit."""

        def __init__(self):
            super().__init__()
            self.body = nn.Conv2d(1, 8, 3, stride=2, padding=1)
            self.head = nn.Conv2d(8, 5, 1)

        def forward(self, image):
            cells = self.head(F.relu(self.body(image))).flatten(2).transpose(1, 2)[0]
            boxes, scores = cells[:, :4], cells[:, 4].sigmoid()
            kept = scores > 0.5
            chosen = boxes[kept]
            best, places = scores.topk(torch.minimum(torch.tensor(3), torch.tensor(scores.shape[0])))
            lit = torch.nonzero(kept)
            return chosen, scores[kept], best, boxes[places], lit, chosen.sum(0)

    class Durations(nn.Module):
        """The length of the result follows from values, as where speech is made from text: each state is repeated for its duration."""

        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(20, 6)
            self.duration = nn.Linear(6, 1)
            self.out = nn.Conv1d(6, 2, 3, padding=1)

        def forward(self, ids):
            x = self.tokens(ids)
            durations = (self.duration(x).squeeze(-1).abs() * 4 + 1).floor().long()
            total = durations.sum(1).max()
            ends = durations.cumsum(1)
            frames = torch.arange(total)[None, :, None]
            begins = ends - durations
            path = ((frames >= begins[:, None, :]) & (frames < ends[:, None, :])).float()
            return self.out((path @ x).transpose(1, 2)), durations

    class Greedy(nn.Module):
        """A loop that ends by what it computes; scripted, for a trace would write it out."""

        def __init__(self):
            super().__init__()
            self.step = nn.Linear(4, 4)

        def forward(self, state, limit: int):
            steps = torch.zeros(1, dtype=torch.int64)
            i = 0
            while i < limit:
                state = torch.tanh(self.step(state)) + 0.5 * state
                if bool(state.sum() > 0):
                    steps = steps + 1
                else:
                    state = state + 0.25
                i += 1
            return state, steps

    class LooseLoop(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.jit.script(Greedy())

        def forward(self, state, limit):
            return self.inner(state, limit)

    class Classifier(nn.Module):
        """What the oldest sets of operators have: windows, statistics, pools, products."""

        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(3, 8, 3, padding=1)
            self.norm = nn.BatchNorm2d(8)
            self.second = nn.Conv2d(8, 12, 3, stride=2)
            self.slopes = nn.PReLU(12)
            self.head = nn.Linear(12, 5)

        def forward(self, image):
            x = F.max_pool2d(F.leaky_relu(self.norm(self.first(image))), 2)
            x = self.slopes(self.second(x))
            return F.softmax(self.head(x.mean([2, 3])), -1), F.avg_pool2d(x, 2, ceil_mode=False)

    return dict(classifier=Classifier, encoder=Encoder, pyramid=Pyramid, decoder=Decoder, tagger=Tagger, detector=Detector, durations=Durations, greedy=Greedy)


def torch_examples():
    import torch

    ids = lambda top, *shape: torch.randint(0, top, shape)
    return dict(
        encoder=((ids(50, 2, 7), torch.ones(2, 7, dtype=torch.int64)), ["ids", "mask"], ["states", "mean"],
                 [{0: "batch", 1: "sequence"}, {0: "batch", 1: "sequence"}]),
        pyramid=((torch.randn(1, 3, 16, 24),), ["image"], ["classes", "mask"], [{0: "batch", 2: "height", 3: "width"}]),
        classifier=((torch.randn(2, 3, 16, 16),), ["image"], ["classes", "pooled"], [{0: "batch", 2: "height", 3: "width"}]),
        decoder=((ids(40, 2, 3), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)), ["ids", "past_key", "past_value"],
                 ["logits", "present_key", "present_value"],
                 [{0: "batch", 1: "sequence"}, {0: "batch", 2: "past"}, {0: "batch", 2: "past"}]),
        tagger=((ids(30, 2, 6),), ["ids"], ["tags", "last"], [{0: "batch", 1: "sequence"}]),
        detector=((torch.randn(1, 1, 12, 10),), ["image"], ["boxes", "scores", "best", "best_boxes", "lit", "sum"],
                  [{2: "height", 3: "width"}]),
        durations=((ids(20, 1, 5),), ["ids"], ["frames", "durations"], [{1: "sequence"}]),
        greedy=((torch.randn(2, 4), 5), ["state", "limit"], ["result", "steps"], [{0: "batch"}, {}]),
    )


def seeded(torch, module):
    torch.manual_seed(20261127)
    return module().eval()


def torchscript():
    import torch

    modules, examples = torch_modules(), torch_examples()
    # The oldest set of operators that an exporter can still write, what is usual today, and the newest.
    versions = dict(classifier=[7, 9], encoder=[11, 17], pyramid=[11, 17], decoder=[14], tagger=[9, 14], detector=[12, 17], durations=[13], greedy=[17])
    for name, opsets in versions.items():
        values, inputs, outputs, axes = examples[name]
        for opset in opsets:
            module = seeded(torch, modules[name])
            if name == "greedy":
                module = torch.jit.script(module)
            torch.onnx.export(
                module, values, str(FOLDER / f"torchscript_{name}_{opset}.onnx"), input_names=inputs, output_names=outputs,
                dynamic_axes={key: value for key, value in zip(inputs, axes) if value}, opset_version=opset,
            )


def without_traces(path):
    """Takes out what the exporter notes beside nodes and values: stacks of calls with the paths of a machine."""
    import onnx

    model = onnx.load(path)
    graph = model.graph
    for each in [model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer]:
        del each.metadata_props[:]
    onnx.save(model, path)


def dynamo():
    import torch

    modules, examples = torch_modules(), torch_examples()
    for name in modules:
        values, inputs, outputs, axes = examples[name]
        # Sizes of one name are one symbol, and what an exporter finds out about a size is not an error.
        shapes = tuple(each or None for each in axes)
        try:
            program = torch.onnx.export(
                seeded(torch, modules[name]), values, input_names=inputs, output_names=outputs, dynamic_shapes=shapes, dynamo=True
            )
            path = str(FOLDER / f"dynamo_{name}.onnx")
            program.save(path)
            without_traces(path)
        except Exception as error:  # What an exporter cannot write is no model to test.
            print(name, "is not written:", str(error)[-300:])


def sklearn():
    import numpy
    from skl2onnx import to_onnx
    from sklearn.cluster import KMeans
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler
    from sklearn.svm import SVC

    random = numpy.random.default_rng(20261127)
    x = random.standard_normal((120, 4)).astype(numpy.float32)
    classes = (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(numpy.int64) + (x[:, 3] > 1)
    y = x[:, 0] * 2 - x[:, 1]
    models = dict(
        forest=RandomForestClassifier(5, max_depth=4, random_state=0).fit(x, classes),
        boosting=GradientBoostingRegressor(n_estimators=8, random_state=0).fit(x, y),
        logistic=make_pipeline(StandardScaler(), PolynomialFeatures(2), LogisticRegression(max_iter=500)).fit(x, classes),
        mlp=MLPClassifier((8,), max_iter=300, random_state=0).fit(x, classes),
        svc=SVC(probability=True, random_state=0).fit(x, classes > 0),
        kmeans=KMeans(3, n_init=2, random_state=0).fit(x),
        neighbors=KNeighborsRegressor(3).fit(x[:20], y[:20]),
    )
    for name, model in models.items():
        options = {} if name in ("boosting", "kmeans", "neighbors") else {"zipmap": False}
        onnx = to_onnx(model, x[:1], options={id(model): options} if options else None, target_opset={"": 17, "ai.onnx.ml": 3})
        (FOLDER / f"sklearn_{name}.onnx").write_bytes(onnx.SerializeToString())


def tensorflow():
    import tensorflow as tf
    import tf2onnx

    tf.keras.utils.set_random_seed(20261127)
    layers = tf.keras.layers
    image = tf.keras.Input((None, None, 3))
    x = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(image)
    x = layers.SeparableConv2D(8, 3, padding="same", activation="swish")(x)
    x = layers.Conv2DTranspose(6, 3, strides=2, padding="same")(x)
    conv = tf.keras.Model(image, [layers.GlobalAveragePooling2D()(x), layers.Conv2D(2, 1)(x)])
    words = tf.keras.Input((None,), dtype="int32")
    y = layers.Embedding(30, 8)(words)
    y = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(y)
    rnn = tf.keras.Model(words, layers.Dense(3, activation="softmax")(y))
    for name, model, signature in [
        ("conv", conv, [tf.TensorSpec((None, None, None, 3), tf.float32, name="image")]),
        ("rnn", rnn, [tf.TensorSpec((None, None), tf.int32, name="words")]),
    ]:
        function = tf.function(lambda given, model=model: model(given), input_signature=signature)
        tf2onnx.convert.from_function(function, signature, opset=15, output_path=str(FOLDER / f"tensorflow_{name}.onnx"))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    {"torchscript": torchscript, "dynamo": dynamo, "sklearn": sklearn, "tensorflow": tensorflow}[sys.argv[1]]()
