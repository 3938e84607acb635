const special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
const letters = [...'abcdefghijklmnopqrstuvwxyz']

/** Of which texts can be made. */
export const words = [
  'the', 'a', 'one', 'model', 'batch', 'row', 'queue', 'thread', 'runs', 'waits', 'answers', 'is', 'was', 'fast', 'slow', 'large', 'small', 'and', 'or', 'not',
  'before', 'after', 'every', 'other', 'text', 'image', 'token', 'night', 'day', 'rain', 'sun', 'with', 'without', 'over', 'under', 'in', 'on', 'to', 'of', 'from',
] // prettier-ignore

/** All tokens; the place of one is its id. Any word can be made of the letters. */
export const vocabulary: readonly string[] = vocabularyOf(words)

/** A vocabulary in which these words are tokens. */
export function vocabularyOf(known: readonly string[]): string[] {
  return [
    ...special,
    ...known,
    '.',
    ',',
    ...letters.filter((letter) => !known.includes(letter)),
    ...letters.map((letter) => `##${letter}`),
  ]
}

/** The files of a BERT tokenizer: word pieces, lower case. */
export function bertTokenizer(
  longestText: number,
  vocabulary: readonly string[],
): Readonly<Record<'tokenizer.json' | 'tokenizer_config.json', object>> {
  const [pad, unknown, begin, end, mask] = special
  const idOf = (token: string) => vocabulary.indexOf(token)
  const asSpecial = (id: string, type: number) => ({ SpecialToken: { id, type_id: type } })
  const text = (id: 'A' | 'B', type: number) => ({ Sequence: { id, type_id: type } })
  return {
    'tokenizer.json': {
      version: '1.0',
      truncation: null,
      padding: null,
      added_tokens: special.map((content) => ({
        id: idOf(content),
        content,
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
        special: true,
      })),
      normalizer: {
        type: 'BertNormalizer',
        clean_text: true,
        handle_chinese_chars: true,
        strip_accents: null,
        lowercase: true,
      },
      pre_tokenizer: { type: 'BertPreTokenizer' },
      post_processor: {
        type: 'TemplateProcessing',
        single: [asSpecial(begin!, 0), text('A', 0), asSpecial(end!, 0)],
        pair: [asSpecial(begin!, 0), text('A', 0), asSpecial(end!, 0), text('B', 1), asSpecial(end!, 1)],
        special_tokens: Object.fromEntries(
          [begin!, end!].map((token) => [token, { id: token, ids: [idOf(token)], tokens: [token] }]),
        ),
      },
      decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
      model: {
        type: 'WordPiece',
        unk_token: unknown,
        continuing_subword_prefix: '##',
        max_input_chars_per_word: 100,
        vocab: Object.fromEntries(vocabulary.map((token, id) => [token, id])),
      },
    },
    'tokenizer_config.json': {
      tokenizer_class: 'BertTokenizer', model_max_length: longestText, do_lower_case: true,
      pad_token: pad, unk_token: unknown, cls_token: begin, sep_token: end, mask_token: mask,
    }, // prettier-ignore
  }
}
