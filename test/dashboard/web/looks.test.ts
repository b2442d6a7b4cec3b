import { describe, expect, it } from 'vitest';
import type { Api } from '../../../src/dashboard/web/api-types.ts';
import { gravestOf, LOOKS } from '../../../src/dashboard/web/looks.ts';

describe('the gravest of findings', () => {
  const findings = (...classes: Api['Finding']['class'][]) =>
    classes.map((name) => ({ class: name }) as Api['Finding']);
  it.each([
    [[], 'safe'],
    [['safe', 'safe'], 'safe'],
    [['safe', 'caution', 'safe'], 'caution'],
    [['caution', 'breaking', 'safe'], 'breaking'],
  ] as [Api['Finding']['class'][], Api['Finding']['class']][])('%j is %s', (classes, gravest) => {
    expect(gravestOf(findings(...classes))).toBe(gravest);
  });
});

describe('the words of the page', () => {
  it('never show a status as the API spells it where that is two words', () => {
    for (const [, , text] of Object.values(LOOKS.status)) expect(text).toMatch(/^[A-Z][a-z ]+$/);
  });
});
