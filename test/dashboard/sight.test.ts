import fc from 'fast-check';
import type { FastifyRequest } from 'fastify';
import { describe, expect, it } from 'vitest';
import { hideOthers, matcherOf } from '../../src/dashboard/sight.ts';

const ID = '3f4c1a5e-0b7d-4c12-9e61-1a2b3c4d5e6f';
const OTHER_ID = '9d8c7b6a-2d9f-4e34-a083-3c4d5e6f7a8b';

describe('a pattern of flows', () => {
  it.each<[pattern: string, name: string, isSeen: boolean]>([
    ['orders', 'orders', true],
    ['orders', 'orders-eu', false],
    ['orders', 'Orders', false],
    ['orders-*', 'orders-eu', true],
    ['orders-*', 'orders-', true],
    ['orders-*', 'orders', false],
    ['orders-*', 'my-orders-eu', false],
    ['*-eu', 'orders-eu', true],
    ['*-eu', 'orders-eu-2', false],
    ['a*a', 'a', false],
    ['a*a', 'aa', true],
    ['a*b*c', 'abc', true],
    ['a*b*c', 'acb', false],
    ['*b*', 'abc', true],
    ['*', '', true],
    ['**', 'anything', true],
    ['orders.eu', 'orders-eu', false],
    ['(a|b)', 'a', false],
    ['orders-*', 'orders-\nsecret', true],
    [ID, ID, false],
  ])('%j of the name %j: %j', (pattern, name, isSeen) => {
    expect(matcherOf([pattern])({ id: OTHER_ID, name })).toBe(isSeen);
  });

  it('that is a GUID names the flow with this id, in any case, and none that is called so', () => {
    expect(matcherOf([ID.toUpperCase()])({ id: ID, name: 'orders' })).toBe(true);
    expect(matcherOf([ID])({ id: OTHER_ID, name: ID })).toBe(false);
  });

  it('is one of several, any of which is enough; without one no flow is seen', () => {
    expect(matcherOf(['a', 'b*'])({ id: ID, name: 'b2' })).toBe(true);
    expect(matcherOf([])({ id: ID, name: 'a' })).toBe(false);
  });

  it('means what an expression with .* for each * means', () => {
    const word = fc.string({ unit: fc.constantFrom('a', 'b', '*'), maxLength: 8 });
    const name = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 12 });
    fc.assert(
      fc.property(word, name, (pattern, called) => {
        const expected = new RegExp(`^${pattern.replaceAll('*', '.*')}$`).test(called);
        expect(matcherOf([pattern])({ id: ID, name: called })).toBe(expected);
      }),
    );
  });
});

describe('a token that is limited to flows, where other replicas deploy', () => {
  const request = {
    method: 'GET',
    params: { id: ID },
    routeOptions: { config: { limit: 'flow' } },
    getDecorator: () => ({ name: 'shop', grants: [{ scopes: ['read'], flows: ['shop'] }] }),
  } as unknown as FastifyRequest;
  /** The flow's name before and after asking the database, as when another request's question loads it meanwhile. */
  const looking = (before: string | undefined, after: string | undefined) => {
    let name = before;
    const flowOf = (id: string) => (name === undefined ? undefined : { record: { id, name } });
    const confirm = async () => {
      name = after;
      return true;
    };
    type Services = Parameters<typeof hideOthers>[0];
    const services = { catalog: { find: flowOf }, receiver: { confirm } } as unknown as Services;
    return hideOthers(services)(request);
  };

  it('sees what was taken up while the database was asked', async () => {
    await expect(looking(undefined, 'shop')).resolves.toBeUndefined();
  });

  it.each([
    ['was hidden', undefined],
    ['was shown', 'shop'],
  ])('does not see what has another name by then, and %s before', async (_, before) => {
    await expect(looking(before, 'other')).rejects.toMatchObject({ statusCode: 404 });
  });
});
