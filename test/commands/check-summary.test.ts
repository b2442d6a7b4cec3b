import { describe, expect, it } from 'vitest';
import { checkSummary } from '../../src/commands/check-summary.ts';
import type { DeployOutcome } from '../../src/model/finding.ts';

const outcome = (change: Partial<DeployOutcome> = {}): DeployOutcome => ({
  flowId: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a11',
  name: 'orders',
  version: '2',
  action: 'updated',
  class: 'safe',
  access: 'same',
  routes: [],
  revision: 2,
  runsInFlight: 0,
  findings: [],
  refusal: null,
  ...change,
});
const summary = (outcomes: readonly DeployOutcome[], { text = 'the report', errors = 0 } = {}) =>
  checkSummary({ outcomes, errors, text, conclusion: { code: 0, line: 'Exit code 0: fine.' } });

describe('the summary of a check', () => {
  it.each<[string, DeployOutcome[], number, string]>([
    ['nothing changed', [outcome({ action: 'unchanged' })], 0, 'Sluice: nothing to deploy'],
    ['all is safe', [outcome(), outcome({ action: 'created' })], 0, 'Sluice: safe to deploy'],
    ['a change is a caution', [outcome(), outcome({ class: 'caution' })], 0, 'Sluice: caution changes'],
    [
      'the gravest is breaking',
      [outcome({ class: 'caution' }), outcome({ class: 'breaking', action: 'refused' })],
      0,
      'Sluice: breaking changes, 1 of 2 refused',
    ],
    ['more get in', [outcome({ access: 'wider' })], 0, 'Sluice: more get in'],
    ['a manifest has a mistake', [], 1, 'Sluice: an error'],
    ['several do', [outcome({ class: 'caution' })], 3, 'Sluice: 3 errors, caution changes'],
  ])('says in its heading that %s', (_, outcomes, errors, heading) => {
    expect(summary(outcomes, { errors }).split('\n')[0]).toBe(`### ${heading}`);
  });

  it('lists what changes, and not what stays', () => {
    const outcomes = [
      outcome({ name: 'a', class: 'caution', action: 'refused', runsInFlight: 3 }),
      outcome({ name: 'b', action: 'created', access: 'wider' }),
      outcome({ name: 'c', action: 'unchanged' }),
    ];
    expect(summary(outcomes)).toBe(`### Sluice: caution changes, more get in, 1 of 2 refused

| flow | change | runs in flight | who gets in |
|---|---|---|---|
| \` a \` | **caution, refused** | 3 | same |
| \` b \` | new | 0 | **wider** |

Exit code 0: fine.

<details>
<summary>What changes, and what to do</summary>

\`\`\`text
the report
\`\`\`

</details>
`);
  });

  it('keeps names and the report in code, whatever they are made of', () => {
    const name = 'a `` b | c\n@all';
    expect(summary([outcome({ name })])).toContain('| ``` a `` b \\| c @all ``` |');
    const text = 'one\n````\n</details> @all';
    expect(summary([], { text })).toContain(`\n\`\`\`\`\`text\n${text}\n\`\`\`\`\`\n`);
  });

  it('fits into a comment of GitHub, however many flows change', () => {
    const outcomes = Array.from({ length: 3000 }, (_, at) => outcome({ name: `${at} ${'n'.repeat(10_000)}` }));
    const text = Array.from({ length: 20_000 }, (_, at) => `line ${at}`).join('\n');
    const written = summary(outcomes, { text });
    expect(written.length).toBeLessThan(65_000);
    expect(written).toContain('| 2900 more |');
    expect(written).toMatch(/\n… \d+ more lines: run `sluice check` yourself\n```\n/);
  });
});
