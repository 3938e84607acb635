"""Writes finder.onnx beside itself: it finds the digits on a page of 4 x 4 places, each of 8 x 8 pixels.

A place is a box, its score the mean of its pixels; ONNX's NonMaxSuppression selects those with ink, of every page of a batch.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
PLACES = 4
SIZE = 8


def constant(name, values, dtype):
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def main():
    boxes = [[SIZE * row, SIZE * column, SIZE * (row + 1), SIZE * (column + 1)] for row in range(PLACES) for column in range(PLACES)]
    initializers = [
        constant('places', boxes, np.float32),
        constant('per_page', [0, 1, PLACES * PLACES], np.int64),
        constant('white', 255, np.float32),
        constant('zero', [0], np.int64),
        constant('one', [1], np.int64),
        constant('like_places', [1, PLACES * PLACES, 4], np.int64),
        constant('most', [PLACES * PLACES], np.int64),
        constant('overlap', [0.5], np.float32),
        constant('ink', [0.05], np.float32),
        constant('box_column', 2, np.int64),
    ]
    nodes = [
        helper.make_node('AveragePool', ['page'], ['means'], kernel_shape=[SIZE, SIZE], strides=[SIZE, SIZE]),
        helper.make_node('Div', ['means', 'white'], ['shares']),
        helper.make_node('Reshape', ['shares', 'per_page'], ['scores']),
        helper.make_node('Shape', ['page'], ['shape']),
        helper.make_node('Slice', ['shape', 'zero', 'one'], ['pages']),
        helper.make_node('Concat', ['pages', 'one', 'one'], ['repeats'], axis=0),
        helper.make_node('Reshape', ['places', 'like_places'], ['one_page']),
        helper.make_node('Tile', ['one_page', 'repeats'], ['all_boxes']),
        helper.make_node('NonMaxSuppression', ['all_boxes', 'scores', 'most', 'overlap', 'ink'], ['selected']),
        helper.make_node('Gather', ['selected', 'box_column'], ['found'], axis=1),
        helper.make_node('Gather', ['places', 'found'], ['boxes'], axis=0),
    ]
    graph = helper.make_graph(
        nodes,
        'finder',
        [helper.make_tensor_value_info('page', TensorProto.FLOAT, ['N', 1, PLACES * SIZE, PLACES * SIZE])],
        [helper.make_tensor_value_info('selected', TensorProto.INT64, ['M', 3]), helper.make_tensor_value_info('boxes', TensorProto.FLOAT, ['M', 4])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8, producer_name='zerohop')
    onnx.checker.check_model(model, full_check=True)
    (HERE / 'finder.onnx').write_bytes(model.SerializeToString())


if __name__ == '__main__':
    main()
