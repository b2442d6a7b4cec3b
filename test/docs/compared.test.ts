import { describe, expect, it } from 'vitest';
import { type Comparison, comparisonPage, parseComparison, readComparison } from '../../scripts/compared.ts';
import { PAGES } from './pages.ts';

const cell = (is: 'yes' | 'part' | 'no') => ({ is, url: 'https://one.example/docs', read: '2026-11-27' });
const comparison = (cells: Readonly<Record<string, object>>): unknown => ({
  peers: ['One', 'Two'],
  rows: [{ claim: 'does it', peers: cells }],
});

describe('what is said about others', () => {
  it.each([
    ['a cell is empty', { One: cell('yes') }, /no cell for Two/],
    ['a cell is of nobody', { One: cell('no'), Two: cell('no'), Three: cell('no') }, /Three, which is no peer/],
    ['a page is missing', { One: cell('no'), Two: { is: 'no', read: '2026-11-27' } }, /url/],
    ['a page is not https', { One: cell('no'), Two: { ...cell('no'), url: 'http://two.example' } }, /url/],
    ['a date is missing', { One: cell('no'), Two: { is: 'no', url: 'https://two.example' } }, /read/],
    ['a date is none', { One: cell('no'), Two: { ...cell('no'), read: 'lately' } }, /read/],
    ['a part is not named', { One: cell('no'), Two: cell('part') }, /which part Two has/],
    ['a word is another', { One: cell('no'), Two: { ...cell('no'), is: 'maybe' } }, /is/],
  ])('is not built where %s', (_, cells, message) => {
    expect(() => parseComparison(comparison(cells))).toThrow(message);
  });

  it.each(['yes', 'part'] as const)('says "none" only where every cell is no, not where one is %s', (is) => {
    const none = parseComparison(comparison({ One: cell('no'), Two: cell('no') }));
    expect(comparisonPage(none)).toContain('| does it | none of them |');
    const some = parseComparison(comparison({ One: cell('no'), Two: { ...cell(is), note: 'on Mondays' } }));
    const named = `${is === 'part' ? 'in part: ' : ''}[Two](https://one.example/docs) (on Mondays)`;
    expect(comparisonPage(some)).toContain(`| does it | ${named} |`);
    expect(comparisonPage(some)).not.toContain('| none');
  });
});

describe('the comparison of this repository', () => {
  const { rows, peers }: Comparison = readComparison();

  it('has a page and a date for each product in each row', () => {
    const cells = rows.flatMap((row) => peers.map((peer) => row.peers[peer]));
    expect(cells).toHaveLength(rows.length * peers.length);
    for (const each of cells) expect(each).toMatchObject({ url: /^https:/, read: /^2026-/ });
  });

  it('is the only place that says of others what they lack', () => {
    const sentences = PAGES.filter(({ name }) => name !== 'docs/compared.md').flatMap(({ name, text }) =>
      text.split(/(?<=[.:|])\s/).map((sentence) => ({ name, sentence })),
    );
    const ofOthers = sentences.filter(({ sentence }) => peers.some((peer) => sentence.includes(peer)));
    expect(ofOthers.filter(({ sentence }) => /\b(none|no other|nobody|only Sluice)\b/i.test(sentence))).toEqual([]);
  });
});
