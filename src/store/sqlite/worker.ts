import { parentPort } from 'node:worker_threads';
import { toFailure } from './call-queue.ts';
import type { ToThread } from './messages.ts';
import { openReaderService } from './reader.ts';
import type { Send, Service } from './service.ts';
import { openWriterService } from './writer.ts';

if (parentPort === null) throw new Error('This file is the entry of a worker thread.');
const port = parentPort;
const send: Send = (message) => port.postMessage(message);
let service: Service | undefined;

port.on('message', (message: ToThread) => {
  switch (message.kind) {
    case 'open':
      open(message);
      break;
    case 'calls':
      service?.take(message.calls, message.bytes);
      break;
    case 'checkpoint':
      service?.checkpoint?.();
      break;
    case 'checkpointed':
      service?.checkpointed?.();
      break;
    case 'close':
      service?.close();
      port.close();
      break;
  }
});

function open({ path, role, options }: Extract<ToThread, { kind: 'open' }>): void {
  try {
    service = role === 'writer' ? openWriterService({ path, options, send }) : openReaderService(path, send);
    send({ kind: 'opened' });
  } catch (error) {
    send({ kind: 'notOpened', failure: toFailure(error) });
    port.close();
  }
}
