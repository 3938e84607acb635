// What somebody would write who does not know that it is there: softmax of each row.
export default ({ logits }) => {
  const [rows, classes] = logits.dims
  const probabilities = new Float32Array(rows * classes)
  for (let row = 0; row < rows; row++) {
    const own = logits.row(row)
    let most = -Infinity
    for (let at = 0; at < classes; at++) if (own[at] > most) most = own[at]
    let sum = 0
    for (let at = 0; at < classes; at++) sum += probabilities[row * classes + at] = Math.exp(own[at] - most)
    for (let at = 0; at < classes; at++) probabilities[row * classes + at] /= sum
  }
  return { probabilities }
}
