import { beforeAll, describe, expect, it } from 'vitest';
import { ORDERS_ID, useDashboard } from './fixture.ts';

const dashboard = useDashboard('all', { access: { kind: 'credentials', token: 'right' } });

beforeAll(async () => {
  dashboard.app.post('/elsewhere', async (request) => ({ body: request.body }));
});

describe('what the dashboard installs stays in the dashboard', () => {
  it('neither its parsers, nor its credentials, nor its headers reach another route', async () => {
    const response = await dashboard.app.inject({ method: 'POST', url: '/elsewhere', body: { a: 1 } });
    expect(response.json()).toEqual({ body: { a: 1 } });
    expect(response.headers).not.toHaveProperty('content-security-policy');
  });

  it('the receive endpoint has no limit and no origin of the dashboard', async () => {
    const response = await dashboard.app.inject({
      method: 'POST',
      url: `/flows/api/webhook/${ORDERS_ID}`,
      headers: { host: 'hooks.example.com', origin: 'https://shop.example', 'content-type': 'text/plain' },
      body: 'x',
    });
    expect(response.json()).toMatchObject({ statusCode: 401, reason: 'signature_missing' });
  });
});
