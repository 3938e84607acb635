'use client'

import { useActionState } from 'react'

/** Sends the picture that was chosen, and shows what it is. */
export function ClassifyForm() {
  const [answer, submit, isPending] = useActionState(async (_, form) => classify(form.get('picture')), null)
  return (
    <>
      <form action={submit}>
        <input type="file" name="picture" accept="image/*" required aria-label="A picture" />
        <button disabled={isPending}>{isPending ? 'Looking …' : 'Classify'}</button>
      </form>
      <div aria-live="polite">{answer && <Answer {...answer} />}</div>
    </>
  )
}

function Answer({ picture, classes = [], error }) {
  const forget = ({ type, currentTarget }) => {
    URL.revokeObjectURL(picture)
    currentTarget.hidden = type === 'error' // what is no picture cannot be shown
  }
  return (
    <section className="answer">
      <img key={picture} src={picture} alt="" onLoad={forget} onError={forget} />
      {error && <p role="alert">{error}</p>}
      {classes.length > 0 && (
        <ol>
          {classes.map(({ label, score }, place) => (
            <li key={place}>
              <span title={label}>{label}</span>
              <i style={{ '--share': score }} />
              <b>{(100 * score).toFixed(1)} %</b>
            </li>
          ))}
        </ol>
      )}
    </section>
  )
}

async function classify(file) {
  const picture = URL.createObjectURL(file)
  try {
    const response = await fetch('/api/classify', { method: 'POST', body: file })
    const isJson = response.headers.get('content-type') === 'application/json'
    return {
      picture,
      ...(isJson ? await response.json() : { error: `It could not be classified (${response.status}).` }),
    }
  } catch (error) {
    return { picture, error: error.message }
  }
}
