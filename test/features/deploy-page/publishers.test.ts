import { describe, expect, it } from 'vitest';
import type { Api } from '../../../src/dashboard/web/api-types.ts';
import {
  linksIn,
  manifestFor,
  piecesOf,
  publisherMatches,
  publishersIn,
} from '../../../src/features/deploy-page/page/publishers.ts';
import { describeSchemes } from '../../../src/features/schemes/descriptions.ts';
import { parseManifest } from '../../../src/manifest/load.ts';
import { BUILT_IN_SCHEMES, STANDARD_PUBLISHERS } from '../../../src/webhooks/schemes/publishers/index.ts';
import { createSchemeRegistry } from '../../../src/webhooks/schemes/resolve.ts';
import { rules } from '../../manifest/rules.ts';

const publishers = publishersIn(describeSchemes(createSchemeRegistry()) as unknown as Api['Scheme'][]);

describe('the publishers of the page', () => {
  it('are all that have a scheme, by their titles', () => {
    const all = [...BUILT_IN_SCHEMES, ...STANDARD_PUBLISHERS].map(({ name }) => name).sort();
    expect(publishers.map(({ name }) => name).sort()).toEqual(all);
    expect(publishers.slice(0, 2).map(({ name }) => name)).toEqual(['Ably', 'Adyen']);
  });

  it.each([
    ['git', ['Gitea', 'GitHub', 'GitHubLegacy', 'GitLab']],
    ['GIT HUB', ['GitHub', 'GitHubLegacy']],
    ['whatsapp', ['Meta']],
    ['stripe-signature', ['Stripe']],
    ['nobody', []],
  ])('are found by a part of a name, an alias or a header: %s', (text, names) => {
    const found = publishers.filter((publisher) => publisherMatches(publisher, text)).map(({ name }) => name);
    expect(found.filter((name) => names.includes(name) || text !== 'git')).toEqual(names);
  });

  it.each(publishers)('have a manifest that can be loaded: $name', (publisher) => {
    const manifest = manifestFor(publisher, 'a3c4e7c2-6c0f-4d0c-9b8e-10a1b2c3d499');
    const { issues } = parseManifest(JSON.stringify(manifest), 'page.json', {
      ...rules,
      readSecret: () => ({ value: 'a secret of more than sixteen bytes' }),
    });
    expect(issues.filter(({ severity }) => severity === 'error')).toEqual([]);
    expect(publisher.setUp.clickPath.length).toBeGreaterThan(0);
    expect(JSON.stringify(manifest)).not.toMatch(/hooks\.example\.com|\{URL\}/);
  });
});

it('shows the Markdown of a step without its marks', () => {
  expect(piecesOf('Open **A**, enter `https://x` ([why](a.md)), <https://y>; 3 * 4')).toEqual([
    { is: 'text', text: 'Open ' },
    { is: 'strong', text: 'A' },
    { is: 'text', text: ', enter ' },
    { is: 'code', text: 'https://x' },
    { is: 'text', text: ' (' },
    { is: 'text', text: 'why' },
    { is: 'text', text: '), ' },
    { is: 'text', text: 'https://y' },
    { is: 'text', text: '; 3 ' },
    { is: 'text', text: '*' },
    { is: 'text', text: ' 4' },
  ]);
});

it.each(publishers.flatMap(({ name, setUp }) => setUp.clickPath.map((step) => [name, step])))(
  'leaves no mark in a step of %s: %s',
  (_, step) => {
    const texts = piecesOf(step ?? '').flatMap(({ is, text }) => (is === 'text' ? text : []));
    expect(texts.join('')).not.toMatch(/[*`]|\]\(/);
  },
);

it('finds the addresses in a source', () => {
  expect(linksIn('acme 1.2 and https://acme.dev/docs, read 2026-11')).toEqual([
    { text: 'acme 1.2 and ', isLink: false },
    { text: 'https://acme.dev/docs', isLink: true },
    { text: ', read 2026-11', isLink: false },
  ]);
});
