"""A JPEG as a row of SqueezeNet: scaled to cover 224 x 224, cut to it from the middle, BGR from 0 to 255."""

import cv2
import numpy

cv2.setNumThreads(1)  # the thread budget is the model's
SIZE = 224


def decode(jpeg):
    image = cv2.imdecode(numpy.frombuffer(jpeg, numpy.uint8), cv2.IMREAD_COLOR)
    height, width = image.shape[:2]
    scale = SIZE / min(height, width)
    size = (max(SIZE, round(width * scale)), max(SIZE, round(height * scale)))
    # What OpenCV advises to shrink an image with, and what looks best to enlarge one.
    image = cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    top, left = (size[1] - SIZE) // 2, (size[0] - SIZE) // 2
    row = image[top : top + SIZE, left : left + SIZE].transpose(2, 0, 1)
    return numpy.ascontiguousarray(row, dtype=numpy.float32)
