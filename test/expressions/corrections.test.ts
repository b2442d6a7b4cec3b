import { afterEach, describe, expect, it, test } from 'vitest';
import { Budget } from '../../src/expressions/budget.ts';
import { compileExpression } from '../../src/expressions/compile.ts';
import type { Json } from '../../src/model/json.ts';

const ofBody = (source: string, body: Json = null) =>
  compileExpression(source, 'delivery').evaluateIn({ roots: { body, headers: {} }, budget: new Budget() });

describe('texts are read as CEL defines it', () => {
  test.each<[string, Json]>([
    ['int("007")', 7],
    ['int("+5") + int("-5")', 0],
    ['double(".5") + double("1e2")', 100.5],
    ['duration("1h30m") == duration("5400s")', true],
    ['timestamp("2024-02-29T23:59:59Z")', '2024-02-29T23:59:59.000Z'],
    ['timestamp("2026-01-02 03:04:05.5+02:00")', '2026-01-02T01:04:05.500Z'],
    ['timestamp("2026-01-02T03:04:05.123456789+02:00")', '2026-01-02T01:04:05.123Z'],
    ['string(b"abc")', 'abc'],
    ['uint(-0.0)', 0],
    ['double("-inf") < double("1e308") && string(double("Infinity")) == "+Inf"', true],
    ['type(timestamp("2026-01-02T03:04:05Z") + duration("1s")) == google.protobuf.Timestamp', true],
    ['type(duration("1s") + duration("1s")) == google.protobuf.Duration', true],
    ['string(b"\\xef\\xbb\\xbfabc") == "\\ufeffabc"', true],
    ['timestamp("2009-02-13T23:31:30Z").getHours("02:00")', 1],
    ['bytes("é") == b\'\'\'\\303\\251\'\'\' && bytes("~") == b"~"', true],
  ])('%s', (source, expected) => expect(ofBody(source)).toEqual(expected));

  test.each([
    ['int(body)', '', 'int() got a text that is not a whole number'],
    ['int(body)', '0X1F', 'int() got a text that is not a whole number'],
    ['int(body)', '0b11', 'int() got a text that is not a whole number'],
    ['uint(body)', '', 'uint() got a text that is not a whole number'],
    ['uint(-0.5)', '', 'uint() got a number below 0'],
    ['uint(body)', -0.5, 'uint() got a number below 0'],
    ['double(body) > 1.0', '1e400', 'double() got a number that is too large for it'],
    ['double(body) < 1.0', '-1e400', 'double() got a number that is too large for it'],
    [
      'type(duration("1s") + timestamp("2026-01-02T03:04:05Z")) == google.protobuf.Timestamp',
      '',
      'type() got the sum of a duration and a time; write the time first',
    ],
    ['double(body)', '0x10', 'double() got a text that is not a number'],
    ['duration(body)', 'h', 'duration() got a text that is not like 1h30m'],
    ['timestamp(body)', '2026-02-30T00:00:00Z', 'timestamp() got a text that is not a time'],
    ['timestamp(body)', '28 March 2026 17:30:00', 'timestamp() got a text that is not a time'],
    ['timestamp(body)', '2026-03-28T24:00:00Z', 'timestamp() got a text that is not a time'],
    ['string(b"\\xff" + b"x")', '', 'string() got bytes that are not text in UTF-8'],
    ['timestamp("2026-01-02T03:04:05Z").getHours(body)', 'Mars', 'no time zone has the name'],
  ] as const)('%s refuses %j, and quotes nothing of it', (source, body, problem) => {
    expect(() => ofBody(source, body)).toThrow(`${problem}`);
    if (body !== '') expect(() => ofBody(source, body)).not.toThrow(`"${body}"`);
  });

  it.each(['b"ÿ"', "B'''a\n€'''", '[1].map(x, b"😀" + b"a")'])('refuses %s, which would lose bytes', (source) => {
    expect(() => ofBody(source)).toThrow('bytes("…") takes any text');
  });

  it('reads a long text once', () => {
    const digits = '1'.repeat(200_000);
    for (const text of [`${digits}x`, `${digits}.x`, `.${digits}x`, `1e${digits}x`]) {
      expect(() => ofBody('double(body)', text)).toThrow('double() got a text that is not a number');
    }
  });
});

describe('an int has 64 bits', () => {
  test.each([
    'int(1e300)',
    'int(body)',
    'int(-1e19)',
    '-(-9223372036854775807 - 1)',
    '(-9223372036854775807 - 1) / -1',
    'int(18446744073709551615u)',
  ])('beyond them %s fails', (source) => expect(() => ofBody(source, 2 ** 63)).toThrow('integer overflow'));

  test.each<[string, Json]>([
    ['int(-7.9)', -7],
    ['int(9223372036854774784.0) == 9223372036854774784', true],
    ['-(-9223372036854775807) == 9223372036854775807', true],
    ['int(7u) + int(uint(1.9)) == 8', true],
    ['uint("7") / 2', 3],
    ['(uint("7") + 2) / 2', 4],
    ['18446744073709551615u / 2 == 9223372036854775807', true],
    ['5 - 6u', -1],
    ['-7 % 2u', -1],
  ])('%s', (source, expected) => expect(ofBody(source)).toBe(expected));
});

describe('places in a text count characters, as its size does', () => {
  test.each<[string, Json]>([
    ['size(body)', 5],
    ['body.indexOf("b")', 2],
    ['body.indexOf("😀", 2)', 3],
    ['body.lastIndexOf("😀")', 3],
    ['body.indexOf("x")', -1],
    ['body.substring(1, 2)', '😀'],
    ['body.substring(3)', '😀c'],
    ['body.substring(size(body))', ''],
    ['body.split("")', ['a', '😀', 'b', '😀', 'c']],
    ['body.split("", 2)', ['a', '😀b😀c']],
    ['body.split("", 0)', []],
    ['body.split("", -1).size()', 5],
    ['body.split("b")', ['a😀', '😀c']],
  ])('%s', (source, expected) => expect(ofBody(source, 'a😀b😀c')).toEqual(expected));

  it.each(['abc', 'a😀b😀c'])('refuses a place outside of %j, also for an empty text', (text) => {
    const size = [...text].length;
    for (const name of ['indexOf', 'lastIndexOf']) {
      for (const place of [-1, size + 1, size + 9])
        expect(() => ofBody(`body.${name}("", ${place})`, text)).toThrow('got a place outside of the text');
      expect(ofBody(`body.${name}("", ${size})`, text)).toBe(size);
      expect(ofBody(`body.${name}("", 2)`, text)).toBe(2);
    }
  });

  it('refuses a place behind the last character', () => {
    for (const place of [6, 7, 8]) expect(() => ofBody(`body.substring(${place})`, 'a😀b😀c')).toThrow('out of range');
  });
});

it.each(['1 / 0u', '1u / 0', '5 % 0u'])('%s divides by zero', (source) =>
  expect(() => ofBody(source)).toThrow('division by zero'),
);

describe('relations', () => {
  it.each([
    'true == body in ["a"]',
    'body == 1 < 2',
    '[1].exists(x, x != 1 // (\n in [true])',
    '1 < 2 == true >= false',
    '(body) != (1) in ([1])',
  ])('CEL reads %s from left to right, its library does not', (source) =>
    expect(() => ofBody(source)).toThrow('this needs parentheses'),
  );

  test.each<[string, Json]>([
    ['1 < 2 == true', true],
    ['"a" in ["a"] != false', true],
    ['true == (1 < 2)', true],
    ['(true == true) in [true]', true],
    ['1 == 1 && 1 < 2 || 2 == 3 && 1 in [1]', true],
    ['1 == 1 ? 1 < 2 : 2 > 3', true],
    ['[1 == 2, 1 < 2][0] == ({"a": 1 == 1}.a)', false],
    ['{"a": 1 == 1, "b": 1 < 2}.b', true],
    ['"1 == 1 < 2" == \'1 in 2\' // == 1 < 2', false],
    ['[1, 2].filter(x, x == 2)[0] < 3', true],
  ])('%s', (source, expected) => expect(ofBody(source)).toBe(expected));

  it('of texts compare characters', () => {
    const texts = ['', 'a', 'a\uffff', 'a😀', 'a😀!', 'a𝒳', 'b', '\ue000', '😀'];
    const sorted = [...texts].sort((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)));
    for (const [place, text] of sorted.entries()) {
      const before = sorted.map((_, other) => other < place);
      expect(ofBody('body.all.map(x, x < body.text)', { all: sorted, text })).toEqual(before);
      expect(ofBody('body.all.map(x, !(body.text <= x))', { all: sorted, text })).toEqual(before);
      expect(ofBody('body.all.map(x, body.text > x)', { all: sorted, text })).toEqual(before);
      expect(ofBody('body.all.map(x, !(x >= body.text))', { all: sorted, text })).toEqual(before);
    }
  });
});

describe('keys of an object', () => {
  test.each<[string, Json, Json]>([
    ['{1: "a", 2u: "b", true: "c", body: "d"}', 3, { 1: 'a', 2: 'b', 3: 'd', true: 'c' }],
    ['[{1: "a"}[1], {2u: "b"}[2], {true: "c"}[true], {body: "d"}[3]]', 3, ['a', 'b', 'c', 'd']],
    ['[1 in {1: 2}, body in {"3": 2}, "1" in {dyn("2"): 1}]', 3, [true, true, false]],
    [
      '[null, 1.5, [1.5], {}, b"a"].map(x, x in body)',
      { null: 1, '1.5': 1, '[object Object]': 1, YQ: 1 },
      [false, false, false, false, false],
    ],
    ['"toString" in body || "constructor" in {}', {}, false],
  ])('%s', (source, body, expected) => expect(ofBody(source, body)).toEqual(expected));

  it.each(['{"a": 1, body: 2}', '{1: 1, "1": 2}', '{1: 1, dyn(1u): 2}', '{body: {}, "b": 1, body: 1}'])(
    '%s has one of them twice',
    (source) => expect(() => ofBody(source, 'a')).toThrow('an object has one key twice'),
  );

  it.each(['null', '1.5', 'body', '1e300', 'b"a"', 'timestamp(0)', 'duration("1s")', 'int', '[1]', '{}'])(
    '%s is none',
    (key) =>
      expect(() => ofBody(`{${key}: 1}`, -0.5)).toThrow('a key of an object is a text, a whole number, true or false'),
  );
});

it('reports an empty list whose type stays open', () => {
  for (const source of ['[].map(n, n / 2)', '{}["a"] > 1', '([] + [1]).all(n, n > 0)'])
    expect(() => ofBody(source)).toThrow(/^expression ".*": .*dyn\(\[\]\)/);
  expect(ofBody('dyn([]).map(n, n / 2)')).toEqual([]);
});

test.each<[string, Json]>([
  ['body.trim()', '\ufeff\u3000a\u00a0\u0085\u180e'],
  ['body.trim() + dyn("\\u0085\\u2028 \\t\\r\\n\\v\\f\\u205f").trim()', '\ufeff\u3000a\u00a0\u0085\u180e'],
  ['body.substring(1).trim()', 'a\u00a0\u0085\u180e'],
])('%s removes the white space of Unicode alone', (source, expected) => {
  expect(ofBody(source, '\ufeff\u3000a\u00a0\u0085\u180e\u2003\u0085')).toBe(expected);
});

test('lowerAscii and upperAscii change ASCII letters alone', () => {
  expect(ofBody('body.lowerAscii() + " " + body.upperAscii()', 'AbİßÉé')).toBe('abİßÉé ABİßÉé');
});

describe('durations', () => {
  test.each<[string, Json]>([
    ['duration("-1.5s")', '-1.5s'],
    ['duration("-0.000000001s")', '-0.000000001s'],
    ['duration("-1.5s") + duration("0s")', '-1.5s'],
    ['duration("0.5s") - duration("1s")', '-0.5s'],
    ['duration("0.5s") - duration("1s") == duration("-500ms")', true],
    ['timestamp("2026-01-01T00:00:00Z") - timestamp("2026-01-01T00:00:01.250Z")', '-1.25s'],
    ['duration("9223372036.854775807s")', '9223372036.854775807s'],
    ['duration("9223372036.854775806s") < duration("9223372036.854775807s")', true],
    ['duration("-9223372036.854775807s") >= duration("-9223372036.854775806s")', false],
    ['duration("9007199s") + duration("1ns") > duration("9007199s")', true],
    ['duration("1h30m1.2345s").getMilliseconds()', 234],
    ['duration("-1.5s").getMilliseconds()', -500],
    ['[duration("-90m").getHours(), duration("90m").getMinutes(), duration("90m").getSeconds()]', [-1, 90, 5400]],
  ])('%s', (source, expected) => expect(ofBody(source)).toEqual(expected));

  test.each([
    'duration("9223372036.854775808s")',
    'duration("-99999999999999h") == duration("1s")',
    'duration("2000000h") + duration("2000000h")',
    'duration("-2000000h") - duration("2000000h")',
    'timestamp("9999-12-31T23:59:59Z") - timestamp("0001-01-01T00:00:00Z") > duration("1s")',
  ])('%s is too long', (source) => expect(() => ofBody(source)).toThrow('a duration is shorter than 2562048 hours'));
});

describe('times and durations', () => {
  test.each<[string, Json]>([
    ['timestamp("2024-01-01T00:00:00.001Z") - timestamp("1970-01-01T00:00:00Z")', '1704067200.001s'],
    ['timestamp("1970-01-01T00:00:00Z") - timestamp("2024-01-01T00:00:00.001Z")', '-1704067200.001s'],
    ['timestamp("2026-01-01T00:00:00Z") + duration("-0.5ms")', '2025-12-31T23:59:59.999Z'],
    ['timestamp("2026-01-01T00:00:00Z") - duration("0.5ms")', '2025-12-31T23:59:59.999Z'],
    ['duration("1h") + timestamp("2026-01-01T00:00:00Z")', '2026-01-01T01:00:00.000Z'],
    ['timestamp("9999-12-31T23:59:58Z") + duration("1.999s")', '9999-12-31T23:59:59.999Z'],
  ])('%s', (source, expected) => expect(ofBody(source)).toEqual(expected));

  test.each([
    'timestamp("9999-12-31T23:59:59Z") + duration("1s")',
    'duration("1s") + timestamp("9999-12-31T23:59:59Z")',
    'timestamp("0001-01-01T00:00:00Z") - duration("1ms")',
    'timestamp("9900-01-01T00:00:00Z") + duration(body) > timestamp("2026-01-01T00:00:00Z")',
  ])('%s is no time', (source) => expect(() => ofBody(source, '2562047h')).toThrow('a time is in the years 1 to 9999'));
});

describe('the fields of a time do not depend on the time zone of the process', () => {
  const usual = process.env.TZ;
  afterEach(() => {
    if (usual === undefined) delete process.env.TZ;
    else process.env.TZ = usual;
  });

  test.each(['UTC', 'Europe/Berlin', 'America/New_York', 'Pacific/Apia'])('in %s', (zone) => {
    process.env.TZ = zone;
    expect(new Intl.DateTimeFormat().resolvedOptions().timeZone).toBe(zone);
    const expected: [string, Json][] = [
      ['timestamp("2026-07-01T00:00:00Z").getDayOfYear()', 181],
      ['timestamp("2026-12-31T23:30:00Z").getDayOfYear()', 364],
      ['timestamp("2026-12-31T23:30:00Z").getDayOfYear("Europe/Berlin")', 0],
      ['timestamp("2026-12-31T23:30:00Z").getFullYear("Europe/Berlin")', 2027],
      ['timestamp("2026-03-28T17:30:00Z").getHours("Asia/Tokyo")', 2],
      ['timestamp("2026-03-08T02:30:00-05:00").getHours("-05:00")', 2],
      ['timestamp("2026-03-28T18:15:00Z").getMinutes("Asia/Kathmandu")', 0],
      ['timestamp("2026-06-30T23:30:00Z").getDayOfWeek("+05:30")', 3],
      ['timestamp("2026-06-30T23:30:00.250Z").getMilliseconds("+05:30")', 250],
      ['timestamp("0050-03-01T00:00:00Z").getFullYear("UTC")', 50],
    ];
    expect(expected.map(([source]) => [source, ofBody(source)])).toEqual(expected);
  });
});
