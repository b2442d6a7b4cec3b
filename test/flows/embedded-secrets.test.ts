// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.
import { describe, expect, it, test } from 'vitest';
import { stepTypes } from '../../src/config/steps.ts';
import { compileExpression } from '../../src/expressions/compile.ts';
import { compileTemplate, secretsIn } from '../../src/expressions/template.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { referencesIn } from '../../src/manifest/secrets.ts';
import { issuesAfter, rules } from '../manifest/rules.ts';

const builtIn = { ...rules, handlers: handlerTable(stepTypes().handlers) };
const issuesOfStep = (step: object) =>
  issuesAfter(({ steps }) => Object.assign(steps, { call: step }), builtIn).filter((line) =>
    line.includes('steps.call'),
  );
const call = (inputs: object) => ({ type: 'HttpRequest', inputs: { url: 'https://example.com/', ...inputs } });
const sent = (authorization: string) => call({ headers: { authorization } });

describe('a reference inside a longer text', () => {
  it('is accepted in secret() in every input, and read when the manifest is loaded', () => {
    expect(issuesOfStep(sent("Bearer ${secret('env:API_TOKEN')}"))).toEqual([]);
    expect(issuesOfStep(call({ body: { a: ['${ secret( "env:API_TOKEN" ) }'] }, method: 'POST' }))).toEqual([]);
    expect(issuesOfStep(sent("Bearer ${secret('env:NOT_SET')}"))).toEqual([
      expect.stringMatching(/^error .*headers\.authorization: the environment variable NOT_SET is not set$/),
    ]);
  });

  test.each([
    ['Bearer env:API_TOKEN', "Bearer ${secret('env:API_TOKEN')}"],
    ['key=env:API_TOKEN;v=1', "key=${secret('env:API_TOKEN')};v=1"],
    ['Token file:keys/api.txt', "Token ${secret('file:keys/api.txt')}"],
    ['${trigger.key} env:API_TOKEN ${run.id}', "${trigger.key} ${secret('env:API_TOKEN')} ${run.id}"],
  ])('that would be sent as it stands is an error that says what to write: %s', (text, right) => {
    expect(issuesOfStep(sent(text)).join()).toContain(
      `error flow.json steps.call.inputs.headers.authorization: would be`,
    );
    expect(issuesOfStep(sent(text)).join()).toContain(`write ${right}`);
    expect(issuesOfStep(sent(right)).filter((line) => line.includes('as it stands'))).toEqual([]);
  });

  it('is warned of where no reference is read, unless it may be a tag', () => {
    const told = (text: string) => issuesOfStep(call({ method: 'POST', body: { a: [text] } }));
    for (const [text, right] of [
      ['env:API_TOKEN', "${secret('env:API_TOKEN')}"],
      ['Bearer env:API_TOKEN', "Bearer ${secret('env:API_TOKEN')}"],
    ] as const) {
      expect(told(text)).toEqual([
        `warning flow.json steps.call.inputs.body.a[0]: would be sent as it stands; write ${right}`,
      ]);
      expect(told(right)).toEqual([]);
    }
    for (const tag of ['env:prod', 'env:PROD', "${'env:API_TOKEN'}", 'env:API_token']) expect(told(tag)).toEqual([]);
  });

  it('is warned of in the host of a URL, which is shown', () => {
    const told = (url: string) => issuesOfStep(call({ url })).filter((line) => line.includes('host'));
    for (const url of [
      "http://${secret('env:API_TOKEN')}.invalid/x",
      "https://u:p@a.${secret('env:API_TOKEN')}:8080?x",
      "HTTPS://${trigger.key}.${secret('env:API_TOKEN')}",
    ]) {
      expect(told(url)).toEqual([
        'warning flow.json steps.call.inputs.url: has secret() in the host of a URL; /hosts and /metrics show host names',
      ]);
    }
    for (const url of [
      "${secret('env:API_TOKEN')}",
      "https://u:${secret('env:API_TOKEN')}@a.example/x",
      "https://a.example/${secret('env:API_TOKEN')}",
      "https://a.example?${secret('env:API_TOKEN')}",
    ]) {
      expect(told(url)).toEqual([]);
    }
  });

  test.each([
    '${secret(trigger.body.name)}',
    "${secret('env:' + trigger.body.name)}",
    "${'Bearer ' + secret('env:API_TOKEN')}",
    "${secret('env:API_TOKEN').size()}",
    "${secret('API_TOKEN')}",
    "${secret('env:A}B')}",
    '${secret()}',
  ])('has nothing but a reference, which is written out: %s', (text) => {
    expect(issuesOfStep(sent(text)).join()).toContain('secret() is a placeholder of its own in step inputs');
  });

  it.each(["secret('CANARY')", 'secret( "CANARY" )', 'size(secret("CANARY"))', "secret('env:A') + secret('CANARY')"])(
    'is not repeated where it stands in place of its reference: %s',
    (expression) => {
      expect(issuesOfStep(sent(`\${${expression}}`)).join()).toMatch(/^(?!.*CANARY).*secret\(\) is a placeholder/);
    },
  );

  it('is refused where it would decide, loop or be stored', () => {
    const refused = (step: object) => expect(issuesOfStep(step).join()).toMatch(/error .*secret\(\)/);
    refused({ type: 'NoOp', runAfter: { first: { when: "secret('env:API_TOKEN') == 'x'" } } });
    refused({ type: 'ForEach', forEach: "${secret('env:API_TOKEN')}", steps: { a: { type: 'NoOp' } } });
    refused({ type: 'RunFlow', inputs: { flow: rules.source ?? '', body: { a: "${secret('env:API_TOKEN')}" } } });
    refused({ type: 'WaitForSignal', inputs: { signalName: "a${secret('env:API_TOKEN')}" } });
    for (const reader of ['delivery', 'response', 'item'] as const) {
      expect(() => compileExpression("secret('env:API_TOKEN') == 'x'", reader)).toThrow('placeholder of its own');
    }
  });

  test.each([
    "$${secret('env:A')}",
    "$$${secret('env:A')}",
    "${'}'}${secret('env:A')}",
    "a${secret('env:A')}$",
    "${'{'}${secret('env:A')}",
  ])('is found where the template reads it, and there alone: %s', (text) => {
    expect(secretsIn(text)).toEqual(compileTemplate(text).secrets.map(({ reference }) => reference));
  });

  it('counts among the references of its manifest', () => {
    const steps = { call: { ...sent("Bearer ${secret('env:A')}"), runAfter: {} } };
    expect(referencesIn({ triggers: {}, steps }, () => []).map(({ text }) => text)).toEqual(['env:A']);
  });
});
