"""Trains the digit classifier of the demo and writes model.onnx, labels.txt and the held-out images beside itself.

    python -m venv .cache/digits && .cache/digits/bin/pip install -r examples/digits/requirements.txt
    .cache/digits/bin/python examples/digits/train.py

The data come with scikit-learn (1797 digits, 8x8, 17 grey levels). HELD_OUT of them, the same share of every digit, are set
aside before anything is trained; they become the PNG files of the demo, and the accuracy printed at the end is measured on
those very files with ONNX Runtime. Two runs on one machine give the same bytes.
"""

import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

HERE = Path(__file__).parent
SEED = 7
HELD_OUT = 300
HIDDEN = 128
EPOCHS = 60
REQUIRED_ACCURACY = 0.97


def load() -> tuple[np.ndarray, np.ndarray]:
    """The digits as the grey pixels (0..255, uint8, [count, 8, 8]) that their PNG files hold, and their labels."""
    digits = load_digits()
    return np.round(digits.images * (255 / 16)).astype(np.uint8), digits.target


def shifted(images: np.ndarray, right: int, down: int) -> np.ndarray:
    """The images moved by a pixel; what leaves the frame is lost, what enters it is background."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    return padded[:, 1 - down : 9 - down, 1 - right : 9 - right]


def train(images: np.ndarray, labels: np.ndarray) -> MLPClassifier:
    """One hidden layer, on every image and its four neighbours a pixel away."""
    moves = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)]
    pixels = np.concatenate([shifted(images, *move) for move in moves]).reshape(-1, 64) / 255
    targets = np.tile(labels, len(moves))
    network = MLPClassifier((HIDDEN,), alpha=1e-3, random_state=SEED)
    # More threads add up in another order, and the weights would differ in their last bits from run to run.
    with threadpool_limits(limits=1):
        for _ in range(EPOCHS):
            network.partial_fit(pixels, targets, classes=np.arange(10))
    return network


def export(network: MLPClassifier) -> bytes:
    """The network as ONNX: `image` [N,1,8,8], pixels 0..255 -> `probabilities` [N,10]."""
    (w1, w2), (b1, b2) = network.coefs_, network.intercepts_
    weights = {'white': np.array(255), 'w1': w1, 'b1': b1, 'w2': w2, 'b2': b2}
    graph = helper.make_graph(
        [
            helper.make_node('Div', ['image', 'white'], ['scaled']),
            helper.make_node('Flatten', ['scaled'], ['flat'], axis=1),
            helper.make_node('Gemm', ['flat', 'w1', 'b1'], ['sums']),
            helper.make_node('Relu', ['sums'], ['hidden']),
            helper.make_node('Gemm', ['hidden', 'w2', 'b2'], ['scores']),
            helper.make_node('Softmax', ['scores'], ['probabilities'], axis=1),
        ],
        'digits',
        [helper.make_tensor_value_info('image', TensorProto.FLOAT, ['N', 1, 8, 8])],
        [helper.make_tensor_value_info('probabilities', TensorProto.FLOAT, ['N', 10])],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in weights.items()],
    )
    model = helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid('', 17)], producer_name='examples/digits/train.py'
    )
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def write_images(images: np.ndarray, labels: np.ndarray, indices: np.ndarray) -> None:
    """Writes `images/<label>-<index>.png`; the index is the digit's place in scikit-learn's data set."""
    folder = HERE / 'images'
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for index in indices:
        Image.fromarray(images[index]).save(folder / f'{labels[index]}-{index:04d}.png', optimize=True)


def accuracy_on_files() -> float:
    """Share of the PNG files whose label the written model finds."""
    files = sorted((HERE / 'images').glob('*.png'))
    pixels = np.stack([np.asarray(Image.open(file), np.float32)[None] for file in files])
    session = onnxruntime.InferenceSession(HERE / 'model.onnx', providers=['CPUExecutionProvider'])
    (probabilities,) = session.run(['probabilities'], {'image': pixels})
    labels = np.array([int(file.name.split('-')[0]) for file in files])
    return float((probabilities.argmax(axis=1) == labels).mean())


def main() -> None:
    images, labels = load()
    training, held_out = train_test_split(
        np.arange(len(labels)), test_size=HELD_OUT, stratify=labels, random_state=SEED
    )
    model = export(train(images[training], labels[training]))
    (HERE / 'model.onnx').write_bytes(model)
    (HERE / 'labels.txt').write_text(''.join(f'{digit}\n' for digit in range(10)))
    write_images(images, labels, held_out)
    accuracy = accuracy_on_files()
    print(f'{len(training)} digits trained on, {len(held_out)} held out, model.onnx {len(model)} bytes')
    print(f'accuracy on the held-out files: {accuracy:.2%}')
    if accuracy < REQUIRED_ACCURACY:
        raise SystemExit(f'expected at least {REQUIRED_ACCURACY:.0%}')


if __name__ == '__main__':
    main()
