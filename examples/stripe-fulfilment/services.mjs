import { standIn } from '../stand-in.mjs';

let shipments = 0;

standIn('fulfilment', process.env.FULFILMENT_URL, () => {
  shipments += 1;
  return { shipment: shipments };
});
