import { receive } from './receive.mjs';

const receiver = await receive(async () => {});
await receiver.listen();
