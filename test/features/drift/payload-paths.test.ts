import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileExpression } from '../../../src/expressions/compile.ts';
import { formatPath, type OpenPath } from '../../../src/expressions/json-path.ts';
import { pathsRead, typeAt } from '../../../src/features/drift/payload-paths.ts';

const readsOf = (source: string, reader: 'step' | 'delivery' = 'step') =>
  pathsRead(compileExpression(source, reader)).reads.map(({ path, use }) => `${use} ${formatPath(path)}`);

describe('what an expression reads', () => {
  it.each<[source: string, reads: string[]]>([
    ['trigger.body.order.id', ['required trigger.body.order.id']],
    ['trigger.headers["x-github-event"]', ['required trigger.headers.x-github-event']],
    ['trigger.body.items[0].sku', ['required trigger.body.items[0].sku']],
    [
      'trigger.body.items[size(trigger.body.rows)].sku',
      ['required trigger.body.rows', 'required trigger.body.items[].sku'],
    ],
    ['trigger.body.name.startsWith("a")', ['required trigger.body.name']],
    ['"text with trigger.body.x"', []],
    ['trigger.body.items.map(i, i.sku)', ['required trigger.body.items', 'required trigger.body.items[].sku']],
    ['trigger.body.items.all(i, i.sku != "")', ['required trigger.body.items', 'conditional trigger.body.items[].sku']],
    [
      'trigger.body.items.filter(i, i.open).map(i, i.sku)',
      [
        'required trigger.body.items',
        'conditional trigger.body.items',
        'required trigger.body.items[].open',
        'conditional trigger.body.items[].sku',
      ].sort(),
    ],
    ['cel.bind(o, trigger.body.order, o.id)', ['required trigger.body.order', 'required trigger.body.order.id']],
    ['trigger.body.kind == "a" && trigger.body.a == 1', ['required trigger.body.kind', 'conditional trigger.body.a']],
    [
      'trigger.body.kind == "a" ? trigger.body.a : trigger.body.b',
      ['required trigger.body.kind', 'conditional trigger.body.a', 'conditional trigger.body.b'],
    ],
    [
      'has(trigger.body.o.x) ? trigger.body.o.x.y : "none"',
      ['required trigger.body.o', 'optional trigger.body.o.x', 'optional trigger.body.o.x.y'],
    ],
    [
      'has(trigger.body.o) && has(trigger.body.o.x)',
      ['required trigger.body', 'optional trigger.body.o', 'optional trigger.body.o.x'],
    ],
    ['"x" in trigger.body.o', ['required trigger.body.o', 'optional trigger.body.o.x']],
    ['loop.item.sku', ['required loop.item.sku']],
    ['steps.a.output.x', []],
    ['{"a": trigger.body.x, "b": [trigger.body.y]}', ['required trigger.body.x', 'required trigger.body.y']],
  ])('%s', (source, reads) => {
    expect([...new Set(readsOf(source))].sort()).toEqual([...reads].sort());
  });

  it('reads body and headers where it is a search key', () => {
    expect(readsOf('body.order.id + headers["x-id"]', 'delivery')).toEqual([
      'required body.order.id',
      'required headers.x-id',
    ]);
  });

  it('finds each path that an expression is made of, however it is spelled', () => {
    const name = fc.constantFrom('a', 'b-c', '__proto__', 'constructor', 'x y', '[]', '"', 'loop');
    fc.assert(
      fc.property(fc.array(name, { minLength: 1, maxLength: 5 }), (keys) => {
        const source = `trigger.body${keys.map((key) => `[${JSON.stringify(key)}]`).join('')}`;
        expect(pathsRead(compileExpression(source)).reads).toEqual([
          { path: ['trigger', 'body', ...keys], use: 'required' },
        ]);
      }),
    );
  });
});

describe('what a value has at a path', () => {
  const list = { items: [{ sku: 'a' }, { sku: 'b', note: null }, { sku: 'c', note: 'x', of: [] }] };
  it.each<[value: unknown, path: OpenPath, type: ReturnType<typeof typeAt>]>([
    [{ a: { b: 1 } }, ['a', 'b'], 'number'],
    [{ a: null }, ['a'], 'null'],
    [{ a: null }, ['a', 'b'], 'absent'],
    [{ a: 'text' }, ['a', 'length'], 'absent'],
    [{ a: [1] }, ['a', 'length'], 'absent'],
    [{ a: [1] }, ['a', 0], 'number'],
    [{ a: [1] }, ['a', 1], 'absent'],
    [{}, ['constructor'], 'absent'],
    [{}, ['__proto__'], 'absent'],
    [JSON.parse('{"__proto__":{"x":true}}'), ['__proto__', 'x'], 'boolean'],
    [list, ['items', null, 'sku'], 'string'],
    [list, ['items', null, 'note'], 'absent'],
    [{ items: [{ n: null }, { n: 1 }] }, ['items', null, 'n'], 'number'],
    [{ items: [{ n: 'a' }, { n: 1 }] }, ['items', null, 'n'], 'mixed'],
    [{ items: [] }, ['items', null, 'sku'], undefined],
    [{ items: { a: 1 } }, ['items', null, 'sku'], undefined],
    [{}, ['items', null, 'sku'], 'absent'],
    ['text', ['a'], 'absent'],
    [null, ['a'], 'absent'],
  ])('%j at %j is %s', (value, path, type) => {
    expect(typeAt(value, path)).toBe(type);
  });

  it('looks at a bounded number of values, however many lists of lists there are', () => {
    const items = Array.from({ length: 300 }, () => Array.from({ length: 300 }, () => [{ x: 1 }]));
    let looked = 0;
    const getOwnPropertyDescriptor = (target: object, key: PropertyKey) => {
      looked += 1;
      return Reflect.getOwnPropertyDescriptor(target, key);
    };
    const counted = new Proxy({ x: 1 }, { getOwnPropertyDescriptor });
    const nested = items.map((inner) => inner.map(() => [counted]));
    expect(typeAt({ items: nested }, ['items', null, null, null, 'x'])).toBe('number');
    expect(looked).toBeLessThanOrEqual(1000);
  });

  it('agrees with what an expression finds there', () => {
    const name = fc.constantFrom('a', 'b', 'constructor', 'length');
    fc.assert(
      fc.property(
        fc.object({ key: name, maxDepth: 3, values: [fc.boolean(), fc.string()] }),
        fc.array(name, { minLength: 1, maxLength: 3 }),
        (body, keys) => {
          const expression = compileExpression(`trigger.body${keys.map((key) => `["${key}"]`).join('')}`);
          const context = { trigger: { body: body as never, headers: {}, key: 'k' }, steps: {} };
          const type = typeAt(body, keys);
          if (type === 'absent') expect(() => expression.evaluate(context)).toThrow();
          else expect(typeAt({ v: expression.evaluate(context) }, ['v'])).toBe(type);
        },
      ),
    );
  });
});
