// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { parseManifest } from '../../src/manifest/load.ts';
import type { Json } from '../../src/model/json.ts';
import { anyCharacter } from '../any-character.ts';
import { FLOW_ID, type GoodManifest, goodManifest, issuesAfter, issuesOf, rules, strictRules } from './rules.ts';

type Edit = (manifest: GoodManifest) => void;

it('finds nothing in a good manifest, read strictly too', () => {
  expect(issuesAfter(() => {})).toEqual([]);
  expect(issuesAfter(() => {}, strictRules)).toEqual([]);
});

describe('refuses', () => {
  const cron = (inputs: object): Edit => addTrigger('cron', { type: 'cron', inputs });
  test.each<[string, Edit, string]>([
    ['a missing id', (m) => Reflect.deleteProperty(m, 'id'), 'id: is missing; a new flow may take "'],
    ['an id that is not a GUID', put('id', 'orders'), 'id: is not a GUID'],
    ['a missing version', (m) => Reflect.deleteProperty(m, 'version'), 'version: is missing'],
    ['a version that is a number', put('version', 1), 'version: is a number; a string is accepted'],
    ['an empty name', put('name', ''), 'name: is empty'],
    ['an unknown key', put('Trigger', {}), 'Trigger: is not known here; did you mean "triggers"?'],
    ['a key in two spellings', put('Id', FLOW_ID), 'Id: is given twice: "id" and "Id" are the same key'],
    ['triggers that are a list', put('triggers', []), 'triggers: is an array; an object is accepted'],
    ['steps that are null', put('steps', null), 'steps: is null; an object is accepted'],
    ['a trigger that is text', addTrigger('t', 'manual'), 'triggers.t: is a string; an object is accepted'],
    ['an unknown trigger', addTrigger('t', { type: 'hook' }), 'triggers.t.type: is not one of manual, cron, webhook'],
    ['a trigger without a type', addTrigger('t', {}), 'triggers.t.type: is missing'],
    ['inputs of null', addTrigger('t', { type: 'manual', inputs: null }), 'triggers.t.inputs: is null; an object is'],
    ['inputs that are a list', addTrigger('t', { type: 'webhook', inputs: [] }), 'triggers.t.inputs: is an array'],
    [
      'a misspelt key of a trigger',
      addTrigger('t', { type: 'manual', input: {} }),
      'triggers.t.input: is not known here',
    ],
    [
      'a name of more than 120 characters',
      put('name', 'n'.repeat(121)),
      'name: is a string of the wrong length; at most 120 characters are accepted',
    ],
    [
      'a trigger key of more than 120 characters',
      addTrigger('k'.repeat(121), { type: 'manual' }),
      `triggers.${'k'.repeat(121)}: is a key of 121 characters; at most 120 are accepted`,
    ],
    ['an empty trigger key', addTrigger('', { type: 'manual' }), 'triggers[""]: is an empty key'],
    [
      'a cron of four fields',
      cron({ cronExpression: '0 2 * *' }),
      'triggers.cron.inputs.cronExpression: is not a cron',
    ],
    [
      'a cron of seven fields',
      cron({ cronExpression: '0 0 2 * * * 2030' }),
      'cronExpression: is not a cron expression of',
    ],
    [
      'a cron by nickname',
      cron({ cronExpression: '@daily' }),
      'cronExpression: is not a cron expression of 5 or 6 fields',
    ],
    ['minute 61', cron({ cronExpression: '61 * * * *' }), 'is not a cron expression: Invalid value for minute: 61'],
    ['a cron that is missing', cron({}), 'triggers.cron.inputs.cronExpression: is missing'],
    [
      'a cron trigger without inputs',
      addTrigger('cron', { type: 'cron' }),
      'triggers.cron.inputs.cronExpression: is missing',
    ],
    [
      'an unknown time zone',
      cron({ cronExpression: '0 2 * * *', timeZone: 'Europe/Berln' }),
      'timeZone: is not an IANA',
    ],
    ['an offset', cron({ cronExpression: '0 2 * * *', timeZone: '+02:00' }), 'timeZone: is not an IANA time zone'],
    [
      'a misspelt cron input',
      cron({ cronExpression: '0 2 * * *', timezone: 'UTC' }),
      'timezone: is not known here; did you',
    ],
    [
      'an unknown onMissed',
      cron({ cronExpression: '0 2 * * *', onMissed: 'fire' }),
      'onMissed: is not one of fireOnce, skip',
    ],
  ])('%s', (_rule, edit, issue) => {
    expect(issuesAfter(edit)).toEqual([expect.stringMatching(/^error flow\.json \S+: is /)]);
    expect(issuesAfter(edit)).toEqual([expect.stringContaining(issue)]);
  });
});

it('reports every error at once', () => {
  const issues = issuesAfter((m) => {
    m.id = 'nope';
    Object.assign(m, { stepps: {} });
    m.triggers.github = { type: 'webhook', inputs: { webhookSlug: '!', webhookHmacKey: 'env:NOPE' } };
    m.triggers.nightly = { type: 'cron', inputs: { cronExpression: 'never' } };
    m.triggers.other = { type: 'webhook', inputs: { webhookSecret: 'env:NOPE', webhookSignatureScheme: 'GitHub' } };
    m.steps.broken = { type: 7 };
    m.steps.first = { type: 'Nope', runAfter: { third: ['Failed'], nowhere: ['Failed'] } };
    m.steps.third = {
      type: 'NoOp',
      inputs: { a: '${a}', b: '${b}' },
      runAfter: { first: ['Failed'], broken: ['Failed'] },
    };
  });
  expect(issues.map((issue) => issue.split(': ')[0])).toEqual([
    'error flow.json stepps',
    'error flow.json id',
    'error flow.json triggers.github.inputs.webhookSlug',
    'error flow.json triggers.nightly.inputs.cronExpression',
    'error flow.json steps.broken.type',
    'error flow.json steps.first.type',
    'error flow.json steps.third.inputs.a',
    'error flow.json steps.third.inputs.b',
    'error flow.json steps.first.runAfter.nowhere',
    'error flow.json steps.third.runAfter.first',
    'error flow.json triggers.github.inputs.webhookHmacKey',
    'error flow.json triggers.other.inputs.webhookSecret',
  ]);
});

it('reports paths as the file spells them', () => {
  const text = JSON.stringify({
    Id: FLOW_ID,
    VERSION: '1',
    Triggers: { Hook: { TYPE: 'webhook', Inputs: { webhookSlug: '!' } } },
    STEPS: { One: { Type: 'NoOp', RunAfter: { Two: { Statuses: ['never'] } } }, Two: { type: 'NoOp' } },
  });
  expect(issuesOf(text)).toEqual([
    expect.stringContaining('error flow.json Triggers.Hook.Inputs.webhookSlug: '),
    expect.stringContaining('error flow.json STEPS.One.RunAfter.Two.Statuses[0]: '),
  ]);
});

it('lets other rooms check a flow, and spells their paths as the file does', () => {
  const seen: string[] = [];
  const path = 'triggers.github.inputs.webhookIpAllowList[0]';
  const checks: typeof rules.checks = [
    (flow) => {
      seen.push(...flow.webhooks.map((webhook) => webhook.triggerKey));
      return [{ severity: 'warning', path, message: 'is odd', weakensGate: true }];
    },
  ];
  const { triggers, ...rest } = goodManifest();
  const text = JSON.stringify({ ...rest, Triggers: triggers });
  const spelled = 'flow.json Triggers.github.inputs.webhookIpAllowList[0]: is odd';
  expect(issuesOf(text, { ...rules, checks })).toEqual([`warning ${spelled}`]);
  expect(issuesOf(text, { ...strictRules, checks })).toEqual([`error ${spelled}`]);
  expect(parseManifest(text, 'flow.json', { ...strictRules, checks }).flow).toBeUndefined();
  expect(seen).toEqual(['github', 'github', 'github']);
});

it('fills in the defaults', () => {
  const { flow } = parseManifest(
    JSON.stringify({
      id: FLOW_ID.toUpperCase(),
      version: '1',
      triggers: { c: { type: 'CRON', inputs: { cronExpression: '0 0 2 * * MON-FRI' } }, m: { type: 'manual' } },
      steps: {
        10: { type: 'NoOp', retry: {} },
        b: { type: 'NoOp', runAfter: { 10: ['skipped', 'Skipped', 'FAILED'], a: {} } },
        a: { type: 'NoOp', timeoutSeconds: 1.5 },
      },
    }),
    'folder/orders.json',
    rules,
  );
  expect(flow?.manifest).toEqual({
    id: FLOW_ID,
    name: 'orders',
    version: '1',
    triggers: {
      c: { type: 'cron', inputs: { cronExpression: '0 0 2 * * MON-FRI', timeZone: 'UTC' } },
      m: { type: 'manual', inputs: {} },
    },
    steps: {
      10: {
        type: 'NoOp',
        inputs: {},
        runAfter: {},
        retry: { maxAttempts: 1, backoffSeconds: 1, factor: 2, maxBackoffSeconds: 300, jitter: true },
      },
      b: {
        type: 'NoOp',
        inputs: {},
        runAfter: { 10: { statuses: ['Skipped', 'Failed'] }, a: { statuses: ['Succeeded'] } },
      },
      a: { type: 'NoOp', inputs: {}, runAfter: {}, timeoutSeconds: 1.5 },
    },
  });
  expect(Object.keys(flow?.manifest.steps ?? {})).toEqual(['10', 'b', 'a']);
});

it('keeps the order of triggers, for a delivery to the flow’s id', () => {
  const triggers = Object.fromEntries(
    ['z', 'a', 'm'].map((key) => [key, { type: 'webhook', inputs: { webhookSlug: key } }]),
  );
  const { flow } = parseManifest(JSON.stringify({ ...goodManifest(), triggers }), 'flow.json', rules);
  expect(flow?.webhooks.map((webhook) => webhook.triggerKey)).toEqual(['z', 'a', 'm']);
});

describe('never throws', () => {
  test('over a type that no text can be made of', () => {
    const triggers = { hook: { type: { toString: 0 } } };
    expect(issuesOf(JSON.stringify({ ...goodManifest(), triggers }))).not.toEqual([]);
  });

  test('over any JSON', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 6 }), (text) => {
        expect(issuesOf(text)).not.toEqual([]);
      }),
    );
  });

  test('over any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter, maxLength: 60 }), (text) => {
        expect(parseManifest(text, 'flow.json', rules).flow).toBeUndefined();
      }),
    );
  });

  test('over a manifest with any JSON in any place', () => {
    fc.assert(
      fc.property(fc.constantFrom(...placesOf(goodManifest())), fc.jsonValue({ maxDepth: 3 }), (place, value) => {
        const manifest = goodManifest();
        putAt(manifest, place, value);
        for (const issue of issuesOf(JSON.stringify(manifest))) expect(issue).toMatch(/^(error|warning) flow\.json/);
      }),
      { numRuns: 300 },
    );
  });
});

function put(key: string, value: Json): Edit {
  return (manifest) => Object.assign(manifest, { [key]: value });
}

function addTrigger(key: string, trigger: unknown): Edit {
  return (manifest) => Object.assign(manifest.triggers, { [key]: trigger });
}

function placesOf(value: unknown, path: string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return [path];
  const inner = Object.entries(value).flatMap(([key, item]) => placesOf(item, [...path, key]));
  return path.length === 0 ? inner : [path, ...inner];
}

function putAt(target: object, [key = '', ...rest]: readonly string[], value: unknown): void {
  if (rest.length === 0) Reflect.set(target, key, value);
  else putAt(Reflect.get(target, key), rest, value);
}
