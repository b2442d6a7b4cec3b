import { describe, expect, it } from 'vitest';
import type { RecordedRun, RecordedStep } from '../../../src/features/rehearsal/recorded-run.ts';
import { savedRun } from '../../../src/features/rehearsal/saved-run.ts';
import type { Json } from '../../../src/model/json.ts';

const FLOW_ID = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10';

function recorded(body: string | Uint8Array, rest: Partial<RecordedRun> = {}): RecordedRun {
  return {
    id: FLOW_ID,
    flowId: FLOW_ID,
    flowName: 'orders',
    revision: 1,
    status: 'Succeeded',
    triggerKey: 'hook',
    triggerType: 'webhook',
    startedAt: '2026-03-01T12:00:00.123Z',
    contentType: 'application/json',
    headers: {},
    body: Buffer.from(body),
    steps: [],
    derived: [],
    ...rest,
  };
}

type Attempt = Partial<RecordedStep['attempts'][number]>;

function step(stepKey: string, attempts: readonly Attempt[], rest: Partial<RecordedStep> = {}): RecordedStep {
  const completed = attempts.map((attempt, index) => ({
    attempt: index + 1,
    status: 'Succeeded' as const,
    inputsRevision: 1,
    output: null,
    error: null,
    ...attempt,
  }));
  const ended = { status: 'Succeeded', input: null, output: null, error: null, completedAt: null } as const;
  return { stepKey, stepType: 'HttpRequest', ...ended, attemptCount: completed.length, attempts: completed, ...rest };
}

const failed = (code: string, message = 'no') => ({
  status: 'Failed' as const,
  error: { code, message, retryable: true },
});
const save = (run: RecordedRun, ...keep: string[]) => savedRun(run, new Set(keep));

describe('a credential', () => {
  const SECRET = 'tok-0123456789';
  it.each<[string, string, string | null, Json]>([
    ['a field', `{"access_token":"${SECRET}","n":1}`, null, { body: { access_token: '***', n: 1 } }],
    ['a list', `{"tokens":["${SECRET}"]}`, null, { body: { tokens: ['***'] } }],
    [
      'another text',
      `{"password":"${SECRET}","note":"is ${SECRET}"}`,
      null,
      { body: { password: '***', note: 'is ***' } },
    ],
    [
      'another text, encoded',
      `{"secret":"${SECRET}","note":"${Buffer.from(`ab${SECRET}`).toString('base64')}"}`,
      null,
      { body: { secret: '***', note: expect.not.stringContaining('MDEyMzQ1Njc4') } },
    ],
    [
      'a URL',
      '{"url":"https://a.example/x?token=abc1&page=2"}',
      null,
      { body: { url: 'https://a.example/x?token=***&page=***' } },
    ],
    [
      'a field under it',
      `{"credentials":{"user":"x1","value":["${SECRET}"]}}`,
      null,
      { body: { credentials: { user: '***', value: ['***'] } } },
    ],
    [
      'the value of a pair',
      `{"headers":[{"name":"Authorization","value":"${SECRET}"},{"name":"Date","value":"today"}]}`,
      null,
      {
        body: {
          headers: [
            { name: 'Authorization', value: '***' },
            { name: 'Date', value: 'today' },
          ],
        },
      },
    ],
    [
      'JSON in a text',
      JSON.stringify({ Message: JSON.stringify({ token: SECRET, n: 1, in: JSON.stringify([{ pin: 'x' }]) }) }),
      null,
      { body: { Message: '{"token":"***","n":1,"in":"[{\\"pin\\":\\"***\\"}]"}' } },
    ],
    [
      'JSON in a form',
      `a=%7b%7d&payload=${encodeURIComponent(JSON.stringify({ token: SECRET }))}`,
      'application/x-www-form-urlencoded',
      { text: `a=%7b%7d&payload=${encodeURIComponent('{"token":"***"}')}` },
    ],
    ['a form', `a=1&token=${SECRET}&b=%C3%A9`, 'application/x-www-form-urlencoded', { text: 'a=1&token=***&b=%C3%A9' }],
    [
      'a form, encoded',
      'access%5Ftoken=abc&x',
      'application/x-www-form-urlencoded; charset=utf-8',
      { text: 'access%5Ftoken=***&x' },
    ],
  ])('is masked in %s', (_, body, contentType, expected) => {
    const { run, masked } = save(recorded(body, { contentType: contentType ?? 'application/json' }));
    expect(run.trigger).toMatchObject(Object(expected));
    expect(JSON.stringify(run)).not.toContain(SECRET);
    expect(masked.length).toBeGreaterThan(0);
  });

  it('is told with its place, so that nobody has to guess what was masked', () => {
    const body = {
      login: { pin: 'a1' },
      auth: { by: 'b1' },
      pairs: [{ name: 'token', value: 'c1' }],
      text: '{"pwd":"d1"}',
    };
    const { masked } = save(recorded(JSON.stringify(body)));
    expect(masked).toEqual([
      'trigger.body.login.pin',
      'trigger.body.auth.by',
      'trigger.body.pairs[].value',
      'trigger.body.text.pwd',
    ]);
  });

  it.each<[string, Partial<RecordedRun>, string[]]>([
    ['<token>x</token>', { contentType: 'application/xml' }, ['trigger.text']],
    ['token=x', { contentType: 'application/x-www-form-urlencoded' }, []],
    ['{"a":1}', {}, []],
    ['', {}, []],
  ])('is not looked for in %s, which is told', (body, about, unread) => {
    expect(save(recorded(body, about)).unread).toEqual(unread);
  });

  it('is not looked for in bytes that are no text, which is told', () => {
    expect(save(recorded(Uint8Array.of(0xff, 0xfe))).unread).toEqual(['trigger.base64']);
  });

  it('is no step, nor what the file itself calls a field', () => {
    const steps = [step('get_token', [{ output: { status: 200, body: 'ok' } }])];
    const { run, masked } = save(recorded('{"n":1}', { steps }));
    expect(run.answers).toEqual({ get_token: [{ output: { status: 200, body: 'ok' } }] });
    expect(masked).toEqual([]);
  });

  it('stays where its name is to be kept, or where nothing but its name looks like one', () => {
    const body = { key: 'PROJECT-17', author: 'Ada', session: 7, token: null, password: '' };
    const { run, masked } = save(recorded(JSON.stringify(body)), 'key');
    expect(run.trigger.body).toEqual(body);
    expect(masked).toEqual([]);
  });

  it('masks neither keys, nor steps, nor words that are there by chance', () => {
    const body = JSON.stringify({ kind_token: 'customer', other_token: 'charge-1234', customer: { of: 'a customer' } });
    const steps = [step('charge-1234', [{ output: { status: 200, 'charge-1234': 'charge-1234' } }])];
    const { run } = save(recorded(body, { steps }));
    expect(run.trigger.body).toEqual({ kind_token: '***', other_token: '***', customer: { of: 'a customer' } });
    expect(run.answers).toEqual({ 'charge-1234': [{ output: { status: 200, 'charge-1234': '***' } }] });
  });

  it('is masked in answers, headers and signals, and its place is said once for all attempts and iterations', () => {
    const answer = { output: { status: 200, headers: { 'set-cookie': SECRET }, body: SECRET } };
    const asked = step('ask', [{}], {
      stepType: 'WaitForSignal',
      input: { signalName: 'go' },
      output: { pin: '1234', said: SECRET },
    });
    const headers = {
      authorization: 'Bearer x',
      'x-hub-signature-256': `sha256=${SECRET}`,
      'x-note': SECRET,
      'x-event': 'push',
    };
    const steps = [step('each.0.call', [answer, answer]), step('each.1.call', [answer]), asked];
    const { run, masked } = save(recorded('{}', { headers, steps }));
    expect(JSON.stringify(run)).not.toContain('0123456789');
    expect(run.trigger.headers).toEqual({
      authorization: '[redacted]',
      'x-hub-signature-256': '[redacted]',
      'x-note': '***',
      'x-event': 'push',
    });
    expect(run.signals).toEqual([{ step: 'ask', name: 'go', body: { pin: '***', said: '***' } }]);
    expect([...new Set(masked)]).toEqual(['answers["each.*.call"][].output.headers.set-cookie', 'signals[].body.pin']);
  });
});

it('names the signal of a step that leaves it to its key', () => {
  const asked = step('each.1.ask', [{}], { stepType: 'WaitForSignal', input: { choices: ['a', 'b'] }, output: 1 });
  const { run } = save(recorded('{}', { steps: [asked] }));
  expect(run.signals).toEqual([{ step: 'each.1.ask', name: 'ask', body: 1 }]);
});

describe('an answer', () => {
  it('is what came from outside alone, of sub-runs and of the failure too', () => {
    const sub = { ...recorded('{}'), steps: [step('call', [{ output: { status: 200 } }])] };
    const steps = [
      step('call', [{ output: { status: 200 } }]),
      step('own', [{ output: 1 }], { stepType: 'SendMail' }),
      step('plain', [{ output: 1 }], { stepType: 'Transform' }),
      step('go', [{ output: {} }], { stepType: 'RunFlow' }),
      step('late', [], { status: 'Skipped', attemptCount: 0 }),
    ];
    const derived = [
      { prefix: 'go/', run: sub },
      { prefix: '(onFailure)/', run: sub },
    ];
    const { answers } = save(recorded('{}', { steps, derived })).run;
    expect(Object.keys(answers)).toEqual(['call', 'own', 'go/call', '(onFailure)/call']);
  });

  it('is none of an attempt that did not come as far as to ask, or that was cut short', () => {
    const unasked = [
      'expression_failed',
      'when_failed',
      'invalid_input',
      'secret_unavailable',
      'interrupted',
      'cancelled',
    ];
    const steps = [
      step('call', [...unasked.map((code) => failed(code)), { output: { status: 200 } }]),
      step('never', [failed('expression_failed')]),
    ];
    expect(save(recorded('{}', { steps })).run.answers).toEqual({ call: [{ output: { status: 200 } }] });
  });

  it('has an error where nothing was answered, and else what was, for the step to judge', () => {
    const busy = { status: 503, headers: { connection: 'close', date: 'today' }, body: null };
    const steps = [
      step('call', [
        { ...failed('network_error', 'ECONNREFUSED · POST /orders') },
        { ...failed('unexpected_status', '503 · POST /orders'), output: busy },
        { ...failed('poll_timeout', 'no such answer · GET'), output: { status: 200 } },
      ]),
      step('own', [{ ...failed('bounced', 'a · B'), output: 1 }], { stepType: 'SendMail' }),
    ];
    expect(save(recorded('{}', { steps })).run.answers).toEqual({
      call: [
        { error: { code: 'network_error', message: 'ECONNREFUSED', retryable: true } },
        { output: { status: 503, headers: { date: 'today' }, body: null } },
        { output: { status: 200 }, error: { code: 'poll_timeout', message: 'no such answer', retryable: true } },
      ],
      own: [{ output: 1, error: { code: 'bounced', message: 'a · B', retryable: true } }],
    });
  });
});
