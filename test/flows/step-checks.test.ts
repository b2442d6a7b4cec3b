import { describe, expect, it } from 'vitest';
import { stepTypes } from '../../src/config/steps.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { stepChecks } from '../../src/flows/step-checks.ts';
import { formatIssue } from '../../src/manifest/issues.ts';
import { parseManifest } from '../../src/manifest/load.ts';

/** Warnings of `sluice check` about a flow with these steps. */
function warningsAbout(steps: object, egressAllow: readonly string[] = []): string[] {
  const manifest = { id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10', version: '1', steps };
  const types = stepTypes({ egressAllow });
  const { flow, issues } = parseManifest(JSON.stringify(manifest), 'flow.json', {
    handlers: handlerTable(types.handlers),
    readSecret: () => ({ value: 'http://10.0.0.1/from-a-secret' }),
    strict: true,
    checks: [stepChecks, ...types.checks],
  });
  expect(flow?.manifest.id).toBe(manifest.id);
  return issues.map(formatIssue);
}

const request = (url: string) => ({ call: { type: 'HttpRequest', inputs: { url } } });

describe('a request whose target egress will refuse', () => {
  it.each([
    ['a private address', 'http://10.1.2.3/orders'],
    ['the metadata service', 'http://169.254.169.254/latest'],
    ['this machine', 'http://127.0.0.1:8080/'],
    ['this machine by its name', 'http://localhost:8080/'],
    ['a name below it', 'http://erp.localhost/'],
    ['an IPv6 address', 'http://[::1]:8080/'],
    ['an address with an expression behind it', `http://192.168.1.1/orders/\${trigger.body.id}`],
    ['an address in another form', 'http://0x7f.1/'],
  ])('is told of: %s', (_, url) => {
    expect(warningsAbout(request(url))).toEqual([
      expect.stringMatching(
        /^warning flow\.json:1:114 steps\.call\.inputs\.url: will be refused: .*SLUICE_EGRESS_ALLOW/,
      ),
    ]);
  });

  it('is told of inside a loop', () => {
    const loop = { each: { type: 'ForEach', forEach: [1], steps: request('http://10.0.0.1/') } };
    expect(warningsAbout(loop)).toEqual([expect.stringContaining('steps.each.steps.call.inputs.url: will be refused')]);
  });

  it.each([
    ['a public name', 'https://api.example.com/orders', []],
    ['a public address', 'https://1.1.1.1/', []],
    ['a network that is open', 'http://10.1.2.3/orders', ['10.0.0.0/8']],
    ['a name that is open', 'http://localhost:8080/', ['localhost']],
    ['the address of an open name', 'http://localhost:8080/', ['127.0.0.0/8']],
    ['what an expression names', `http://\${trigger.body.host}/`, []],
    ['what a secret names', 'env:ERP_URL', []],
  ])('is not told of for %s', (_, url, egressAllow) => {
    expect(warningsAbout(request(url), egressAllow)).toEqual([]);
  });
});

it('tells of a flow without steps', () => {
  expect(warningsAbout({})).toEqual(['warning flow.json:1:60 steps: is empty: runs of this flow do nothing']);
});

it('tells of a placeholder of another template language', () => {
  const log = { log: { type: 'LogMessage', inputs: { message: 'order {{ body.name }}' } } };
  expect(warningsAbout(log)).toEqual([
    expect.stringContaining(
      'steps.log.inputs.message: contains {{ body.name }}, which stays as it is; an expression is written',
    ),
  ]);
});
