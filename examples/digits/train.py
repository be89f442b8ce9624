"""Trains the digit classifier and writes its weights and its test images.

How to run it, from this folder:

    python3 -m venv ~/digits-venv
    ~/digits-venv/bin/pip install -r requirements.txt
    ~/digits-venv/bin/python train.py

It writes weights.safetensors and test-images.safetensors beside this file and
takes under a minute on one CPU core. Every random number comes from a fixed
seed, so a second run on the same machine writes the same bytes.

The data are the 1,797 handwritten digits of 8x8 pixels that scikit-learn
carries (part of "Optical Recognition of Handwritten Digits", UCI Machine
Learning Repository). A stratified split keeps 360 of them as test images.
Those are read for the accuracy printed at the end and for nothing else: the
settings below were judged with

    python train.py --validate

which never looks at the test images: it trains on five sixths of the training
images, measures on the other sixth, and writes no files.

The network, in numpy, is the one that network.js builds with WebNN:
    conv 3x3, 16 channels -> relu -> conv 3x3, 32 channels -> relu
    -> max pooling 2x2 -> dense 64 -> relu -> dense 10 -> softmax
"""

import os

# One thread keeps the order of floating point sums, and so the result, fixed.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.ndimage import affine_transform
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SPLIT_SEED = 2024
TRAINING_SEED = 1
TEST_IMAGES = 360
EPOCHS = 60
BATCH_SIZE = 32
LEARNING_RATE = 2e-3
DROPOUT = 0.3
LARGEST_VALUE = 16.0

HERE = Path(__file__).resolve().parent


# The layers ----------------------------------------------------------------


def patches_3x3(x):
    """Every 3x3 neighbourhood of a zero-padded batch, as rows of a matrix."""
    n, channels, height, width = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * height * width, channels * 9)


def conv_forward(x, weight, bias):
    n, _, height, width = x.shape
    patches = patches_3x3(x)
    out = patches @ weight.reshape(len(weight), -1).T + bias
    return out.reshape(n, height, width, -1).transpose(0, 3, 1, 2), patches


def conv_weight_gradients(grad, patches, weight):
    rows = grad.transpose(0, 2, 3, 1).reshape(-1, len(weight))
    return (rows.T @ patches).reshape(weight.shape), rows.sum(axis=0)


def conv_input_gradient(grad, weight):
    """A convolution of the gradient with the filters turned by 180 degrees."""
    turned = weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
    return conv_forward(grad, turned, np.float32(0))[0]


def max_pool_forward(x):
    n, channels, height, width = x.shape
    blocks = x.reshape(n, channels, height // 2, 2, width // 2, 2)
    blocks = blocks.transpose(0, 1, 2, 4, 3, 5).reshape(n, channels, height // 2, width // 2, 4)
    winner = blocks.argmax(axis=-1)[..., None]
    return np.take_along_axis(blocks, winner, axis=-1)[..., 0], winner


def max_pool_input_gradient(grad, winner):
    n, channels, height, width = grad.shape
    blocks = np.zeros((n, channels, height, width, 4), np.float32)
    np.put_along_axis(blocks, winner, grad[..., None], axis=-1)
    blocks = blocks.reshape(n, channels, height, width, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    return blocks.reshape(n, channels, height * 2, width * 2)


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


# The network ---------------------------------------------------------------


def initial_parameters(rng):
    def weight(shape, inputs):
        return rng.normal(0, np.sqrt(2 / inputs), shape).astype(np.float32)

    def bias(size):
        return np.zeros(size, np.float32)

    return {
        "conv1.weight": weight((16, 1, 3, 3), 9),
        "conv1.bias": bias(16),
        "conv2.weight": weight((32, 16, 3, 3), 16 * 9),
        "conv2.bias": bias(32),
        "dense1.weight": weight((512, 64), 512),
        "dense1.bias": bias(64),
        "dense2.weight": weight((64, 10), 64),
        "dense2.bias": bias(10),
    }


def predict(p, images):
    """The probabilities of the ten digits for images of shape [n, 1, 8, 8]."""
    x = np.maximum(conv_forward(images, p["conv1.weight"], p["conv1.bias"])[0], 0)
    x = np.maximum(conv_forward(x, p["conv2.weight"], p["conv2.bias"])[0], 0)
    x = max_pool_forward(x)[0].reshape(len(images), -1)
    x = np.maximum(x @ p["dense1.weight"] + p["dense1.bias"], 0)
    return softmax(x @ p["dense2.weight"] + p["dense2.bias"])


def loss_gradients(p, images, labels, rng):
    """The gradient of the mean cross entropy for every parameter."""
    n = len(images)
    conv1, patches1 = conv_forward(images, p["conv1.weight"], p["conv1.bias"])
    relu1 = np.maximum(conv1, 0)
    conv2, patches2 = conv_forward(relu1, p["conv2.weight"], p["conv2.bias"])
    pooled, winner = max_pool_forward(np.maximum(conv2, 0))
    kept1 = (rng.random((n, 512)) >= DROPOUT).astype(np.float32) / np.float32(1 - DROPOUT)
    flat = pooled.reshape(n, -1) * kept1
    dense1 = flat @ p["dense1.weight"] + p["dense1.bias"]
    hidden = np.maximum(dense1, 0)
    probabilities = softmax(hidden @ p["dense2.weight"] + p["dense2.bias"])

    g = {}
    grad = probabilities
    grad[np.arange(n), labels] -= 1
    grad /= n
    g["dense2.weight"], g["dense2.bias"] = hidden.T @ grad, grad.sum(axis=0)
    grad = (grad @ p["dense2.weight"].T) * (dense1 > 0)
    g["dense1.weight"], g["dense1.bias"] = flat.T @ grad, grad.sum(axis=0)
    grad = ((grad @ p["dense1.weight"].T) * kept1).reshape(pooled.shape)
    grad = max_pool_input_gradient(grad, winner) * (conv2 > 0)
    g["conv2.weight"], g["conv2.bias"] = conv_weight_gradients(grad, patches2, p["conv2.weight"])
    grad = conv_input_gradient(grad, p["conv2.weight"]) * (conv1 > 0)
    g["conv1.weight"], g["conv1.bias"] = conv_weight_gradients(grad, patches1, p["conv1.weight"])
    return g


# Training ------------------------------------------------------------------


def augment(images, rng):
    """Turns, scales and moves every image a little and varies its stroke width."""
    out = np.empty_like(images)
    centre = np.array([3.5, 3.5])
    for i, image in enumerate(images[:, 0]):
        angle = rng.uniform(-0.2, 0.2)
        scale = rng.uniform((0.9, 0.75), (1.1, 1.2))
        move = rng.uniform(-1, 1, 2)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        matrix = turn * scale
        out[i, 0] = affine_transform(image, matrix, centre - matrix @ centre + move, order=1)
        # Grey lies at the edges of strokes: darker grey looks like wider strokes.
        out[i, 0] **= rng.uniform(0.7, 1.5)
    return out


def train(images, labels):
    """Trains with Adam; the learning rate falls to zero along a half cosine."""
    rng = np.random.default_rng(TRAINING_SEED)
    p = initial_parameters(rng)
    first = {name: np.zeros_like(value) for name, value in p.items()}
    second = {name: np.zeros_like(value) for name, value in p.items()}
    total_steps = EPOCHS * (len(images) // BATCH_SIZE)
    step = 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(images))
        moved = augment(images, rng)
        for start in range(0, len(images) - BATCH_SIZE + 1, BATCH_SIZE):
            batch = order[start : start + BATCH_SIZE]
            gradients = loss_gradients(p, moved[batch], labels[batch], rng)
            step += 1
            rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * step / total_steps))
            for name, gradient in gradients.items():
                first[name] = 0.9 * first[name] + 0.1 * gradient
                second[name] = 0.999 * second[name] + 0.001 * gradient**2
                mean = first[name] / (1 - 0.9**step)
                variance = second[name] / (1 - 0.999**step)
                p[name] -= (rate * mean / (np.sqrt(variance) + 1e-8)).astype(np.float32)
    return p


def accuracy(p, images, labels):
    return float((predict(p, images).argmax(axis=1) == labels).mean())


# Files ---------------------------------------------------------------------


def write_safetensors(path, tensors, metadata):
    """The safetensors format: header length, JSON header, raw little-endian data."""
    names = {np.dtype("<f4"): "F32", np.dtype("uint8"): "U8"}
    header = {"__metadata__": metadata}
    data = b""
    for name, tensor in tensors.items():
        raw = np.ascontiguousarray(tensor).tobytes()
        header[name] = {
            "dtype": names[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def as_input(pixels):
    return (pixels[:, None] / LARGEST_VALUE).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description="Trains the digit classifier.")
    parser.add_argument("--validate", action="store_true", help="measure on a part of the training images; write nothing")
    arguments = parser.parse_args()

    digits = load_digits()
    train_pixels, test_pixels, train_labels, test_labels = train_test_split(
        digits.images, digits.target, test_size=TEST_IMAGES, stratify=digits.target, random_state=SPLIT_SEED
    )
    if arguments.validate:
        fit_pixels, held_pixels, fit_labels, held_labels = train_test_split(
            train_pixels, train_labels, test_size=1 / 6, stratify=train_labels, random_state=SPLIT_SEED
        )
        p = train(as_input(fit_pixels), fit_labels)
        print(f"validation accuracy {accuracy(p, as_input(held_pixels), held_labels):.2%} on {len(held_labels)} images")
        return

    p = train(as_input(train_pixels), train_labels)
    print(f"training accuracy {accuracy(p, as_input(train_pixels), train_labels):.2%} on {len(train_labels)} images")
    print(f"test accuracy {accuracy(p, as_input(test_pixels), test_labels):.2%} on {len(test_labels)} images")
    write_safetensors(
        HERE / "weights.safetensors",
        p,
        {"trained_by": "train.py", "split_seed": str(SPLIT_SEED), "training_seed": str(TRAINING_SEED)},
    )
    write_safetensors(
        HERE / "test-images.safetensors",
        {"images": test_pixels.astype(np.uint8), "labels": test_labels.astype(np.uint8)},
        {"data_set": "scikit-learn load_digits", "values": "0 to 16", "split_seed": str(SPLIT_SEED)},
    )


if __name__ == "__main__":
    main()
