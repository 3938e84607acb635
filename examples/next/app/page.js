import { ClassifyForm } from './classify-form.js'

export default function Page() {
  return (
    <main>
      <h1>What is in a picture?</h1>
      <ClassifyForm />
    </main>
  )
}
