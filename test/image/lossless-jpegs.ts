/** A grey JPEG without loss (SOF3): each pixel as its difference to the one before it. */
export function losslessJpeg(
  width: number,
  height: number,
  valueAt: (x: number, y: number) => number,
): Buffer {
  const segment = (marker: number, ...data: number[]) => [
    0xff,
    marker,
    (data.length + 2) >> 8,
    (data.length + 2) & 0xff,
    ...data,
  ]
  const codes = segment(
    0xc4,
    0x00,
    0,
    0,
    0,
    10,
    ...Array.from({ length: 12 }, () => 0),
    ...Array.from({ length: 10 }, (_, size) => size),
  ) // of 4 bits each
  const frame = segment(0xc3, 8, height >> 8, height & 0xff, width >> 8, width & 0xff, 1, 1, 0x11, 0)
  const scan = segment(0xda, 1, 1, 0x00, 1, 0, 0)
  const bits: number[] = []
  const put = (value: number, count: number) => {
    for (let bit = count - 1; bit >= 0; bit--) bits.push((value >> bit) & 1)
  }
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const before = x > 0 ? valueAt(x - 1, y) : y > 0 ? valueAt(0, y - 1) : 128
      const difference = valueAt(x, y) - before
      const size = difference === 0 ? 0 : 1 + Math.floor(Math.log2(Math.abs(difference)))
      put(size, 4)
      put(difference < 0 ? difference + 2 ** size - 1 : difference, size)
    }
  }
  while (bits.length % 8 !== 0) bits.push(1)
  const data: number[] = []
  for (let at = 0; at < bits.length; at += 8) {
    const byte = Number.parseInt(bits.slice(at, at + 8).join(''), 2)
    data.push(byte, ...(byte === 0xff ? [0] : []))
  }
  return Buffer.from([0xff, 0xd8, ...codes, ...frame, ...scan, ...data, 0xff, 0xd9])
}
