import { expect, it } from 'vitest';
import { knownPublishers, Mistake, publisherNamed } from '../../../src/features/new/publishers.ts';
import { describeSchemes } from '../../../src/features/schemes/descriptions.ts';
import { createSchemeRegistry } from '../../../src/webhooks/schemes/resolve.ts';

const publishers = knownPublishers();
const found = (text: string) => {
  const publisher = publisherNamed(text, publishers);
  return publisher instanceof Mistake ? publisher.message : publisher.names[0];
};

it('takes no scheme for a publisher whose name only begins like it', () => {
  const schemes = describeSchemes(createSchemeRegistry()).map(({ name }) => name);
  expect(schemes).toContain('Custom');
  for (const name of schemes) {
    const named = found(name);
    if (named !== name) expect(named).toContain(`There is no publisher "${name}"`);
  }
  expect(found('custom')).toMatch(/^There is no publisher "custom": .* docs\/publishers\/custom\.md/);
});

it('takes the beginning of one name, and lists the names that have the same beginning', () => {
  expect(found('customer')).toBe('CustomerIo');
  expect(found('Git')).toMatch(/^"Git" may be Gitea, GitHub, .*GitLab; write more of the name/);
});
