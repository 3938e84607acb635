// The docs site: the documents of the repository as they are, at the paths that they have there, so that a link that works
// on one works on the other. The navigation is the index in docs/README.md.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const { version, description } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'))

/** The links of a section of docs/README.md; a table whose head has a title is a group of its own. */
const itemsIn = (section) =>
  section.split(/^\| ([^|\n]+) \| \|\n\|---/m).reduce((items, part, index, parts) => {
    if (index % 2 === 1) return items
    const links = [...part.matchAll(/\[([^\]]+)\]\((?!https?:)([^)#]+\.md)\)/g)].map(([, title, path]) => ({
      text: title,
      link: new URL(path, 'file:///docs/').pathname,
    }))
    const title = parts[index - 1]
    return title === undefined
      ? [...items, ...links]
      : [
          ...items,
          { text: title[0].toUpperCase() + title.slice(1), items: links, collapsed: items.length > 0 },
        ]
  }, [])

const sidebar = readFileSync(`${root}docs/README.md`, 'utf8')
  .split(/^## /m)
  .slice(1)
  .map((section) => {
    const title = section.slice(0, section.indexOf('\n'))
    return { text: title, items: itemsIn(section), collapsed: title !== 'Guide' }
  })

// Code of 110 columns is whole at a width of 1280: until 1440 the outline is in the bar above, as it is on narrow screens.
const style = `
.vp-doc div[class*='language-'] code { font-size: 13px }
.VPDoc .container, .VPDoc .content-container.content-container { max-width: 1000px !important }
.vp-doc td, .vp-doc th { font-size: 14px; padding: 6px 10px; vertical-align: top }
.vp-doc td code { font-size: 13px; padding: 1px 4px }
.vp-doc h5, .vp-doc h6 { margin: 16px 0 8px }
@media (max-width: 640px) {
  .vp-doc table { font-size: 13px }
  .vp-doc td, .vp-doc th { font-size: 13px; padding: 4px 6px }
  .vp-doc td code { overflow-wrap: anywhere; font-size: 12px; padding: 0 2px }
}
@media (min-width: 960px) and (max-width: 1439px) {
  .VPDoc .aside { display: none !important }
  .VPDoc.VPDoc { padding: 32px 32px 0 }
  .VPLocalNav.VPLocalNav { display: block }
}
`

export default defineConfig({
  title: 'zerohop',
  description,
  head: [['style', {}, style]],
  srcDir: root,
  srcExclude: ['{build,.cache,bench,examples,native,packages,prebuilds,scripts,src,test}/**'],
  rewrites: {
    'README.md': 'index.md',
    'docs/README.md': 'docs/index.md',
    'docs/api/README.md': 'docs/api/index.md',
  },
  outDir: `${root}build/docs-site`,
  cacheDir: `${root}.cache/vitepress`,
  cleanUrls: true,
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Guide', link: '/docs/guide/getting-started' },
      { text: 'Reference', link: '/docs/reference/model-options' },
      { text: 'API', link: '/docs/api/' },
      { text: version, link: '/CHANGELOG' },
    ],
    sidebar,
  },
})
