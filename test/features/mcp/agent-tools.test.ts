import { beforeAll, describe, expect, it } from 'vitest';
import {
  type AgentTool,
  agentTools,
  documentSchema,
  type ServiceDocument,
} from '../../../src/features/mcp/agent-tools.ts';
import { UNKNOWN_ID, useDashboard } from '../../dashboard/fixture.ts';

const dashboard = useDashboard();
let document: ServiceDocument;
beforeAll(async () => {
  document = documentSchema.parse((await dashboard.app.inject('/flows/api/openapi.json')).json());
});

function tool(name: string): AgentTool {
  const found = agentTools(document, ['read', 'operate']).find((each) => each.name === name);
  if (found === undefined) throw new Error(`there is no tool ${name}`);
  return found;
}

describe('the tools of an agent', () => {
  it.each<[string[], string[]]>([
    [[], []],
    [['metrics'], []],
    [['deploy'], []],
    [['read'], ['read']],
    [['read', 'deploy', 'metrics'], ['read']],
    [
      ['read', 'operate'],
      ['read', 'plan', 'act'],
    ],
  ])('with the scopes %j are of the kinds %j', (scopes, kinds) => {
    expect([...new Set(agentTools(document, scopes).map(({ kind }) => kind))]).toEqual(kinds);
  });

  it('change something only where a plan comes first', () => {
    const acting = agentTools(document, ['read', 'operate', 'deploy', 'metrics']).filter(({ kind }) => kind === 'act');
    expect(acting.map(({ name }) => name).sort()).toEqual([
      'cancelRuns',
      'redeliverDeliveries',
      'rerunRuns',
      'retryRuns',
    ]);
    for (const { inputSchema } of acting) expect(inputSchema).toMatchObject({ required: ['token', 'reason'] });
  });

  it('read neither streams, nor bodies, nor metrics, nor what publishers ask', () => {
    const names = agentTools(document, ['read', 'operate', 'metrics']).map(({ name }) => name);
    for (const name of ['streamEvents', 'getDeliveryBody', 'metrics', 'answerHandshake', 'receiveDelivery']) {
      expect(names).not.toContain(name);
    }
  });

  it('ask what the operation takes, with whatever text in its place', () => {
    expect(tool('getStep').request({ id: UNKNOWN_ID, key: 'a/b?c#d%2e' })).toEqual({
      method: 'GET',
      path: `/flows/api/runs/${UNKNOWN_ID}/steps/a%2Fb%3Fc%23d%252e`,
    });
    expect(tool('listRuns').request({ status: 'Failed', search: 'a&b', includeTotal: false })).toEqual({
      method: 'GET',
      path: '/flows/api/runs?status=Failed&search=a%26b&includeTotal=false',
    });
    for (const key of ['', '.', '..']) {
      expect(() => tool('getStep').request({ id: UNKNOWN_ID, key })).toThrow('key: there is none with this name');
    }
  });

  it('plan even if they are told not to', () => {
    const { body = '' } = tool('planRetryRuns').request({ flowId: UNKNOWN_ID, plan: false });
    expect(JSON.parse(body)).toEqual({ flowId: UNKNOWN_ID, plan: true });
  });

  it('carry out a plan with its token, and say why where the operation takes it', () => {
    const given = { token: 't', reason: 'why & how', flowId: UNKNOWN_ID };
    const retry = tool('retryRuns').request(given);
    expect({ ...retry, body: JSON.parse(retry.body ?? '') }).toEqual({
      method: 'POST',
      path: '/flows/api/runs/retry',
      body: { plan: false, token: 't', reason: 'why & how' },
    });
    const redeliver = tool('redeliverDeliveries').request(given);
    expect({ ...redeliver, body: JSON.parse(redeliver.body ?? '') }).toEqual({
      method: 'POST',
      path: '/flows/api/webhooks/redeliver?reason=why+%26+how',
      body: { plan: false, token: 't' },
    });
    expect(tool('planRedeliverDeliveries').inputSchema).toMatchObject({
      properties: { reason: { enum: expect.anything() } },
    });
  });
});
