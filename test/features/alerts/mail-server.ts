import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { SMTPServer } from '../../oracles/smtp.ts';

interface Mail {
  readonly from: string;
  readonly to: string[];
  readonly text: string;
}

/** A mail server on this machine. */
export async function mailServer(options: ConstructorParameters<typeof SMTPServer>[0] = {}) {
  const mails: Mail[] = [];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onData(stream, session, done) {
      let text = '';
      stream.on('data', (piece) => {
        text += piece;
      });
      stream.on('end', () => {
        const { mailFrom, rcptTo } = session.envelope;
        mails.push({
          from: mailFrom === false ? '' : mailFrom.address,
          to: rcptTo.map(({ address }) => address),
          text,
        });
        done();
      });
    },
    ...options,
  });
  server.on('error', () => {});
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())));
  const { port } = server.server.address() as AddressInfo;
  const target = {
    type: 'smtp',
    host: '127.0.0.1',
    port,
    from: 'sluice@example.com',
    to: ['a@example.com', 'b@example.com'],
  };
  return { mails, target };
}
